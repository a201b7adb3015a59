package options

import (
	"errors"
	"fmt"
	"os"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
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
			spec.Pools[i].Count = max(a.Min, 1)
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
	f := &scalerFile{yamlFile: yamlFile{path}}
	if two {
		return f.readPools(bodies[0])
	}
	alone := func(name string) yamlKey {
		return yamlKey{name, func(ast.Node) error { return errors.New("only with --prefill-workers and --decode-workers") }}
	}
	if err := f.begin(bodies[0]); err != nil {
		return nil, nil, err
	}
	if _, err := f.readKeys(bodies[0], "an autoscaler", append(f.listKeys(), alone("prefill"), alone("decode"))...); err != nil {
		return nil, nil, err
	}
	if err := f.all.Check(); err != nil {
		return nil, nil, f.errorAt(bodies[0], "%v", err)
	}
	return &f.all, nil, nil
}

// begin takes what the kind of scaler has where nothing else is said. The last of nodes that
// names one counts.
func (f *scalerFile) begin(nodes ...ast.Node) error {
	kind := autoscale.HPA
	for _, node := range nodes {
		pairs, _ := cli.YamlPairs(node)
		for _, entry := range pairs {
			if entry.Key.GetToken().Value != "scaler" {
				continue
			}
			name, err := readChoice(entry.Value, namesOf(autoscale.Kinds())...)
			if err != nil {
				return f.errorAt(entry.Key, "scaler: %v", err)
			}
			kind = autoscale.Kind(name)
		}
	}
	f.all = autoscale.Default(kind)
	return nil
}

// readPools reads an autoscaler of each pool that has one. What stands beside them is said of both.
func (f *scalerFile) readPools(body ast.Node) (entry, decode *replay.Autoscale, err error) {
	names := []string{"prefill", "decode"}
	if _, ok := cli.YamlPairs(body); !ok {
		return nil, nil, f.errorAt(body, "want autoscalers, with %s", cli.Either(names))
	}
	var all [2]*replay.Autoscale
	for i, name := range names {
		if all[i], err = f.readPool(body, name); err != nil {
			return nil, nil, err
		}
	}
	if all[0] == nil && all[1] == nil {
		return nil, nil, f.errorAt(body, "an autoscaler of neither pool, want prefill, decode or both, as prefill: {min: 1, max: 4, metrics: [...]}")
	}
	return all[0], all[1], nil
}

// readPool reads the autoscaler of a pool, nil where it has none: what is said of both, then what
// is said of it.
func (f *scalerFile) readPool(body ast.Node, name string) (*replay.Autoscale, error) {
	node := valueOf(body, name)
	if err := f.begin(body, node); err != nil {
		return nil, err
	}
	skip := func(ast.Node) error { return nil }
	if _, err := f.readKeys(body, "autoscalers", append(f.listKeys(), yamlKey{"prefill", skip}, yamlKey{"decode", skip})...); err != nil || node == nil {
		return nil, err
	}
	if _, err := f.readKeys(node, "an autoscaler", f.listKeys()...); err != nil {
		return nil, err
	}
	if err := f.all.Check(); err != nil {
		return nil, f.errorAt(node, "%v", err)
	}
	own := f.all
	return &own, nil
}

// valueOf returns what a key of a mapping has, nil where it is not there.
func valueOf(body ast.Node, name string) ast.Node {
	pairs, _ := cli.YamlPairs(body)
	for _, entry := range pairs {
		if entry.Key.GetToken().Value == name {
			return entry.Value
		}
	}
	return nil
}

// listKeys returns the keys of the file: those of every scaler, and those of some kinds.
func (f *scalerFile) listKeys() []yamlKey {
	a := &f.all
	return append([]yamlKey{
		{"scaler", func(ast.Node) error { return nil }}, // see begin
		{"min", readWhole(&a.Min, 0, autoscale.MostWorkers)},
		{"max", readWhole(&a.Max, 1, autoscale.MostWorkers)},
		{"sync", readTime(&a.Sync)},
		{"scrape", func(n ast.Node) error {
			_, err := f.readKeys(n, "scrape", yamlKey{"interval", readTime(&a.Interval)}, yamlKey{"delay", readTime(&a.Delay)},
				yamlKey{"jitter", readTime(&a.Jitter)}, yamlKey{"rate_window", readTime(&a.RateWindow)})
			return err
		}},
		{"startup", func(n ast.Node) error {
			s := &a.Startup
			_, err := f.readKeys(n, "startup", yamlKey{"node", f.readLaw(&s.Node)}, yamlKey{"image", f.readLaw(&s.Image)},
				yamlKey{"weights", f.readLaw(&s.Weights)}, yamlKey{"warmup", f.readLaw(&s.WarmUp)})
			return err
		}},
		{"cost", readAmount(&a.Cost)},
		{"new_workers", func(n ast.Node) (err error) { a.NewKind, err = cli.YamlText(n); return err }},
	}, f.listKindKeys()...)
}

// readTime returns what takes in a time.
func readTime(to *sim.Time) func(ast.Node) error {
	return func(node ast.Node) error {
		text, err := cli.YamlText(node)
		if err != nil {
			return err
		}
		if *to, err = cli.ParseInstant(text); err != nil {
			return excerpt.Errorf("%s: %w", text, err)
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
