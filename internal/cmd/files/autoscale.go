package files

import (
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/autoscale/planner"
	"github.com/replay-llm/replay/schema"
)

// scalerFile reads a file with an autoscaler.
type scalerFile struct{ yamlfile.File }

// scalers has the common keys of autoscalers, and the keys for prefill and decode workers.
type scalers struct {
	autoscale.Config `yaml:",inline"`
	Prefill          ast.Node `yaml:"prefill" is:"pool"`
	Decode           ast.Node `yaml:"decode" is:"pool"`
}

// ParseAutoscale parses the autoscalers of the entry pool and of the decode pool. A pool without an autoscaler has
// nil. two reports whether there are two pools. path is the name of the file in errors.
func ParseAutoscale(path string, text []byte, two bool) (entry, decode *replay.Autoscale, err error) {
	f := newScalerFile(path)
	body, err := f.ReadBody(text, "autoscaler")
	if err != nil {
		return nil, nil, err
	}
	if two {
		return f.readPools(body)
	}
	f.Rules["pool"] = yamlfile.Rule{Read: func(ast.Node, any) error {
		return errors.New("requires --prefill-workers and --decode-workers")
	}}
	x, err := f.readShared(body, body, "an autoscaler")
	if err != nil {
		return nil, nil, err
	}
	return &x.Config, nil, f.PlaceError(body, x.Check())
}

// newScalerFile returns a scalerFile with its rules.
func newScalerFile(path string) *scalerFile {
	f := &scalerFile{yamlfile.File{Path: path, Only: func(kinds []string) error { return fmt.Errorf("requires scaler: %s", cli.Either(kinds)) }}}
	isRead := func(ast.Node, any) error { return nil } // readShared and readPools read these keys
	f.Rules = rules{
		"metric": yamlfile.OneOf(autoscale.Metrics()), "predictor": yamlfile.OneOf(autoscale.Predictors()),
		"loss":                yamlfile.OneOf(autoscale.Losses()),
		"optimization target": yamlfile.OneOf(planner.Targets()), "planner mode": yamlfile.OneOf(planner.Modes()),
		"select": yamlfile.OneOf([]string{"max", "min", "disabled"}), "law name": yamlfile.OneOf(autoscale.Laws()),
		"kind": yamlfile.Rule{Read: isRead, Shape: schema.OneOf(cli.Names(autoscale.Kinds()))}, "pool": yamlfile.Rule{Read: isRead, Shape: autoscale.Config{}},
		"behavior": yamlfile.To(f.readBehavior).As(direction{}), "timeout": yamlfile.To(readTimeout),
		"number": expressionOf(false), "bool": expressionOf(true),
		"target": yamlfile.To(f.readTarget), "policy": yamlfile.To(f.readPolicy), "slot": yamlfile.To(f.readSlot),
	}
	f.Rules["law"] = yamlfile.To(f.readLaw).As(schema.AnyOf(yamlfile.InstantShape(), f.Shape(autoscale.Law{}, "")))
	return f
}

// readShared reads the common keys of autoscalers. Defaults depend on the kind of scaler in pool, or otherwise in
// body.
func (f *scalerFile) readShared(body, pool ast.Node, what string) (x scalers, err error) {
	kind := autoscale.HPA
	for _, node := range []ast.Node{body, pool} {
		pairs, _ := yamlfile.PairsOf(node)
		for _, entry := range pairs {
			if entry.Key.GetToken().Value != "scaler" {
				continue
			}
			if kind, err = yamlfile.ReadChoice(entry.Value, autoscale.Kinds()); err != nil {
				return x, f.ErrorAt(entry.Key, "scaler: %v", err)
			}
		}
	}
	x.Config, f.Kind = autoscale.Default(kind), string(kind)
	_, err = f.Read(body, what, &x)
	return x, err
}

// readPools reads the autoscalers of two pools. Keys outside of prefill and decode apply to both pools.
func (f *scalerFile) readPools(body ast.Node) (entry, decode *replay.Autoscale, err error) {
	if _, ok := yamlfile.PairsOf(body); !ok {
		return nil, nil, f.ErrorAt(body, "must have autoscalers, with prefill or decode")
	}
	var all [2]*replay.Autoscale
	for i, name := range []string{"prefill", "decode"} {
		node := valueOf(body, name)
		x, err := f.readShared(body, node, "autoscalers")
		if err != nil {
			return nil, nil, err
		}
		if node == nil {
			continue
		}
		if _, err := f.Read(node, "an autoscaler", &x.Config); err != nil {
			return nil, nil, err
		}
		if err := f.PlaceError(node, x.Check()); err != nil {
			return nil, nil, err
		}
		all[i] = &x.Config
	}
	if all[0] == nil && all[1] == nil {
		return nil, nil, f.ErrorAt(body, "an autoscaler of neither pool, must be prefill, decode or both, as prefill: {min: 1, max: 4, metrics: [...]}")
	}
	return all[0], all[1], nil
}

// valueOf returns the value of a key of a mapping, or nil if it is absent.
func valueOf(body ast.Node, name string) ast.Node {
	pairs, _ := yamlfile.PairsOf(body)
	for _, entry := range pairs {
		if entry.Key.GetToken().Value == name {
			return entry.Value
		}
	}
	return nil
}

// expressionOf returns a rule for an expression. The value is true or false if bool is true, and otherwise a number.
func expressionOf(bool bool) yamlfile.Rule {
	return yamlfile.To(func(n ast.Node, to *string) (err error) {
		if *to, err = yamlfile.TextOf(n); err != nil {
			return err
		}
		err = autoscale.CheckRule(*to, bool)
		if x := new(formula.Error); errors.As(err, &x) {
			return excerpt.Errorf("%s: %s", *to, x.Text)
		}
		return err
	})
}

// readTimeout reads the real-time limit for answers of a program.
func readTimeout(node ast.Node, to *time.Duration) error {
	text, err := yamlfile.TextOf(node)
	if err != nil {
		return err
	}
	if *to, err = time.ParseDuration(text); err != nil || *to < time.Millisecond {
		return excerpt.Errorf("%s: must be a time of at least 1ms, as 10s", text)
	}
	return nil
}

// readSlot reads a number of workers and the time from which it applies.
func (f *scalerFile) readSlot(node ast.Node, s *autoscale.Slot) error {
	seen, err := f.Read(node, "a slot", s)
	if err == nil && len(seen) < 2 {
		err = f.ErrorAt(node, "must have at and workers")
	}
	return err
}

// readTarget reads a metric and its target value.
func (f *scalerFile) readTarget(node ast.Node, t *autoscale.Target) error {
	seen, err := f.Read(node, "a metric", t)
	value := "target"
	if f.Kind == string(autoscale.KEDA) {
		value = "threshold"
	}
	if err == nil && !(seen.Has("metric") && seen.Has(value)) {
		err = f.ErrorAt(node, "must have metric and %s", value)
	}
	return err
}

// readLaw reads a fixed time, or a random distribution of times.
func (f *scalerFile) readLaw(node ast.Node, to *autoscale.Law) error {
	*to = autoscale.Law{}
	if _, ok := yamlfile.PairsOf(node); !ok {
		return yamlfile.ReadScalar(node, &to.Mean, "")
	}
	if _, err := f.Read(node, "a law", to); err != nil {
		return err
	}
	if to.Name == "" {
		return errors.New("must be a time, or a law as {law: exponential, mean: 20s}")
	}
	return to.Check()
}

// direction is a Behavior with the key select. The value of select sets two fields of the Behavior.
type direction struct {
	*autoscale.Behavior `yaml:",inline"`
	Select              string `yaml:"select" is:"select"`
}

// readBehavior reads how the number of workers may change in one direction.
func (f *scalerFile) readBehavior(node ast.Node, b *autoscale.Behavior) error {
	b.Set = true
	d := direction{Behavior: b}
	seen, err := f.Read(node, "a direction", &d)
	if seen.Has("select") {
		b.Least, b.Off = d.Select == "min", d.Select == "disabled"
	}
	return err
}

// readPolicy reads a scaling policy of one direction.
func (f *scalerFile) readPolicy(node ast.Node, p *autoscale.Policy) error {
	seen, err := f.Read(node, "a policy", p)
	if err == nil && (len(seen) != 2 || !seen.Has("period")) {
		err = f.ErrorAt(node, "must have workers or percent, and period")
	}
	return err
}
