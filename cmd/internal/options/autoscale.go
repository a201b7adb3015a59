package options

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/sim"
)

// scalerFile is a file that says who changes the number of workers, and by what.
type scalerFile struct {
	yamlFile
	all autoscale.Config
}

// fillAutoscale enters into spec who changes the number of workers.
func (o *Options) fillAutoscale(spec *replay.Spec) error {
	path := o.Cluster.autoscale
	if path == "" {
		return nil
	}
	for _, other := range []string{"scale", "faults", "worker-speed"} {
		if o.Changed(other) {
			return o.Only(other, "without --autoscale")
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--autoscale: %w", err)
	}
	if spec.Autoscale, spec.AutoscaleDecode, err = ParseAutoscale(path, text, spec.Disaggregated()); err != nil {
		return err
	}
	flags := []string{"workers"}
	if spec.Disaggregated() {
		flags = []string{"prefill-workers", "decode-workers"}
	}
	for i, flag := range flags {
		if a := spec.AutoscalerOf(i); a != nil && !o.Changed(flag) {
			spec.Pools[i].Count = a.Min
		}
	}
	if err := spec.Topology.CheckAutoscale(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// ParseAutoscale reads the autoscaler of the entry pool and that of the decode pool, nil where
// there is none; two says that there are two pools. path is what errors call the file.
func ParseAutoscale(path string, text []byte, two bool) (entry, decode *replay.Autoscale, err error) {
	bodies, err := cli.YamlBodies(path, text)
	switch {
	case err != nil:
		return nil, nil, err
	case len(bodies) != 1:
		return nil, nil, fmt.Errorf("%s: %d documents, want one autoscaler", path, len(bodies))
	}
	f := &scalerFile{yamlFile: yamlFile{path}, all: autoscale.Default()}
	if two {
		return f.readPools(bodies[0])
	}
	alone := func(name string) yamlKey {
		return yamlKey{name, func(ast.Node) error { return errors.New("only with --prefill-workers and --decode-workers") }}
	}
	if _, err := f.readKeys(bodies[0], "an autoscaler", append(f.listKeys(), alone("prefill"), alone("decode"))...); err != nil {
		return nil, nil, err
	}
	if err := f.all.Check(); err != nil {
		return nil, nil, f.errorAt(bodies[0], "%v", err)
	}
	return &f.all, nil, nil
}

// readPools reads an autoscaler of each pool that has one. What stands beside them is said of both.
func (f *scalerFile) readPools(body ast.Node) (entry, decode *replay.Autoscale, err error) {
	var nodes [2]ast.Node
	keep := func(i int) func(ast.Node) error {
		return func(n ast.Node) error { nodes[i] = n; return nil }
	}
	keys := append(f.listKeys(), yamlKey{"prefill", keep(0)}, yamlKey{"decode", keep(1)})
	if _, err := f.readKeys(body, "autoscalers", keys...); err != nil {
		return nil, nil, err
	}
	var all [2]*replay.Autoscale
	for i, node := range nodes {
		if node == nil {
			continue
		}
		own := &scalerFile{f.yamlFile, f.all}
		if _, err := own.readKeys(node, "an autoscaler", own.listKeys()...); err != nil {
			return nil, nil, err
		}
		if err := own.all.Check(); err != nil {
			return nil, nil, f.errorAt(node, "%v", err)
		}
		all[i] = &own.all
	}
	if all[0] == nil && all[1] == nil {
		return nil, nil, f.errorAt(body, "an autoscaler of neither pool, want prefill, decode or both, as prefill: {min: 1, max: 4, metrics: [...]}")
	}
	return all[0], all[1], nil
}

// listKeys returns the keys of the file.
func (f *scalerFile) listKeys() []yamlKey {
	a := &f.all
	return []yamlKey{
		{"scaler", func(n ast.Node) error {
			name, err := readChoice(n, namesOf(autoscale.Kinds())...)
			a.Kind = autoscale.Kind(name)
			return err
		}},
		{"min", readWhole(&a.Min, 1, autoscale.MostWorkers)},
		{"max", readWhole(&a.Max, 1, autoscale.MostWorkers)},
		{"sync", readTime(&a.Sync)},
		{"scrape", func(n ast.Node) error {
			_, err := f.readKeys(n, "scrape", yamlKey{"interval", readTime(&a.Interval)}, yamlKey{"delay", readTime(&a.Delay)}, yamlKey{"rate_window", readTime(&a.RateWindow)})
			return err
		}},
		{"startup", func(n ast.Node) error {
			s := &a.Startup
			_, err := f.readKeys(n, "startup", yamlKey{"node", readTime(&s.Node)}, yamlKey{"image", readTime(&s.Image)},
				yamlKey{"weights", readTime(&s.Weights)}, yamlKey{"warmup", readTime(&s.WarmUp)})
			return err
		}},
		{"cost", readAmount(&a.Cost)},
		{"tolerance", readAmount(&a.Tolerance)},
		{"metrics", func(n ast.Node) error {
			a.Targets = nil
			return f.readList(n, "metrics", f.readTarget)
		}},
		{"scale_up", func(n ast.Node) error { return f.readBehavior(n, &a.Up) }},
		{"scale_down", func(n ast.Node) error { return f.readBehavior(n, &a.Down) }},
	}
}

// readTarget reads a metric and its target.
func (f *scalerFile) readTarget(node ast.Node) error {
	var t autoscale.Target
	seen, err := f.readKeys(node, "a metric", f.metricKey(&t.Metric), yamlKey{"target", readAmount(&t.Value)})
	if err == nil && len(seen) < 2 {
		err = f.errorAt(node, "want metric and target")
	}
	f.all.Targets = append(f.all.Targets, t)
	return err
}

// metricKey is the key of a metric's name.
func (f *scalerFile) metricKey(to *autoscale.Metric) yamlKey {
	return yamlKey{"metric", func(n ast.Node) error {
		name, err := readChoice(n, namesOf(autoscale.Metrics())...)
		*to = autoscale.Metric(name)
		return err
	}}
}

// readBehavior reads how fast it goes in one direction.
func (f *scalerFile) readBehavior(node ast.Node, b *autoscale.Behavior) error {
	_, err := f.readKeys(node, "a direction",
		yamlKey{"window", readTime(&b.Window)},
		yamlKey{"policies", func(n ast.Node) error {
			b.Policies = nil
			return f.readList(n, "policies", func(n ast.Node) error { return f.readPolicy(n, b) })
		}},
		yamlKey{"select", func(n ast.Node) error {
			name, err := readChoice(n, "max", "min", "disabled")
			b.Least, b.Off = name == "min", name == "disabled"
			return err
		}})
	return err
}

// readPolicy reads a policy of a direction.
func (f *scalerFile) readPolicy(node ast.Node, b *autoscale.Behavior) error {
	var p autoscale.Policy
	seen, err := f.readKeys(node, "a policy", yamlKey{"workers", readWhole(&p.Workers, 1, autoscale.MostWorkers)},
		yamlKey{"percent", readAmount(&p.Percent)}, yamlKey{"period", readTime(&p.Period)})
	if err == nil && (len(seen) != 2 || !slices.Contains(seen, "period")) {
		err = f.errorAt(node, "want workers or percent, and period")
	}
	b.Policies = append(b.Policies, p)
	return err
}

// readTime returns what takes in a time.
func readTime(to *sim.Time) func(ast.Node) error {
	return func(node ast.Node) error {
		text, err := cli.YamlText(node)
		if err != nil {
			return err
		}
		if *to, err = cli.ParseInstant(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		return nil
	}
}

// readWhole returns what takes in a whole number.
func readWhole(to *int, least, most int) func(ast.Node) error {
	return func(node ast.Node) error {
		text, err := cli.YamlText(node)
		if err == nil {
			*to, err = parseCount(text, least, most)
		}
		return err
	}
}

// readAmount returns what takes in a number that is not negative.
func readAmount(to *float64) func(ast.Node) error {
	return func(node ast.Node) error { return readNumber(node, to, 0, 1e12) }
}

// namesOf returns names as texts.
func namesOf[T ~string](all []T) []string {
	names := make([]string, len(all))
	for i, name := range all {
		names[i] = string(name)
	}
	return names
}
