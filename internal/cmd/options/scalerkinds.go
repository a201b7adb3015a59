package options

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/formula"
	"github.com/replay-llm/replay/replay/autoscale"
)

// kindKey is a key of some kinds of scalers.
type kindKey struct {
	yamlKey
	kinds []autoscale.Kind
}

// listKindKeys returns the keys that only some kinds of scalers have. Those of others say so.
func (f *scalerFile) listKindKeys() []yamlKey {
	var keys []yamlKey
	for _, k := range slices.Concat(f.listLoadKeys(), f.listRuleKeys()) {
		if !slices.Contains(k.kinds, f.all.Kind) {
			k.read = func(ast.Node) error { return fmt.Errorf("only with scaler: %s", cli.Either(namesOf(k.kinds))) }
		}
		keys = append(keys, k.yamlKey)
	}
	return keys
}

// listLoadKeys returns those of scalers that look at loads.
func (f *scalerFile) listLoadKeys() []kindKey {
	const hpa, keda, rate, predict, perfect = autoscale.HPA, autoscale.KEDA, autoscale.ByRate, autoscale.Predict, autoscale.Foreknown
	of := func(name string, read func(ast.Node) error, kinds ...autoscale.Kind) kindKey {
		return kindKey{yamlKey{name, read}, kinds}
	}
	a := &f.all
	l, p := a.Load, a.Forecast
	if l == nil {
		l = new(autoscale.Load)
	}
	if p == nil {
		p = new(autoscale.Forecast)
	}
	return []kindKey{
		of("metrics", f.readTargets("target"), hpa),
		of("triggers", f.readTargets("threshold"), keda),
		of("tolerance", readAmount(&a.Tolerance), hpa, keda),
		of("scale_up", func(n ast.Node) error { return f.readBehavior(n, &a.Up) }, hpa, keda, rate, predict),
		of("scale_down", func(n ast.Node) error { return f.readBehavior(n, &a.Down) }, hpa, keda, rate, predict),
		of("polling_interval", readTime(&a.Polling), keda),
		of("cooldown_period", readTime(&a.Cooldown), keda),
		of("metric", f.metricKey(&l.Metric).read, rate, predict),
		of("per_worker", readAmount(&l.PerWorker), rate, predict),
		of("in_flight", readAmount(&l.InFlight), predict, perfect),
		of("headroom", readAmount(&l.Headroom), rate, predict),
		of("predictor", func(n ast.Node) error {
			name, err := readChoice(n, namesOf(autoscale.Predictors())...)
			p.Predictor = autoscale.Predictor(name)
			return err
		}, predict),
		of("window", readWhole(&p.Window, 2, 100_000), predict),
		of("horizon", readTime(&p.Horizon), predict),
		of("period", readTime(&p.Period), predict),
		of("smoothing", func(n ast.Node) error {
			_, err := f.readKeys(n, "smoothing", yamlKey{"level", readAmount(&p.Level)}, yamlKey{"trend", readAmount(&p.Trend)}, yamlKey{"season", readAmount(&p.Season)})
			return err
		}, predict),
	}
}

// listRuleKeys returns those of rules, schedules and programs.
func (f *scalerFile) listRuleKeys() []kindKey {
	a, r, x := &f.all, f.all.Rules, f.all.Program
	if r == nil {
		r = new(autoscale.Rules)
	}
	if x == nil {
		x = new(autoscale.Program)
	}
	all := []kindKey{
		{yamlKey: yamlKey{"want", f.readRule(&r.Want, false)}},
		{yamlKey: yamlKey{"up", f.readRule(&r.Up, true)}},
		{yamlKey: yamlKey{"down", f.readRule(&r.Down, true)}},
		{yamlKey: yamlKey{"up_by", readWhole(&r.UpBy, 1, autoscale.MostWorkers)}},
		{yamlKey: yamlKey{"down_by", readWhole(&r.DownBy, 1, autoscale.MostWorkers)}},
		{yamlKey: yamlKey{"up_cooldown", readTime(&r.UpCooldown)}},
		{yamlKey: yamlKey{"down_cooldown", readTime(&r.DownCooldown)}},
	}
	for i := range all {
		all[i].kinds = []autoscale.Kind{autoscale.ByRules}
	}
	slots, program := []autoscale.Kind{autoscale.BySlots}, []autoscale.Kind{autoscale.ByProgram}
	return append(all,
		kindKey{yamlKey{"command", func(n ast.Node) (err error) { x.Command, err = cli.YamlText(n); return err }}, program},
		kindKey{yamlKey{"timeout", func(n ast.Node) (err error) { x.Timeout, err = readTimeout(n); return err }}, program},
		kindKey{yamlKey{"slots", func(n ast.Node) error {
			a.Slots = nil
			return f.readList(n, "slots", f.readSlot)
		}}, slots},
		kindKey{yamlKey{"every", readTime(&a.Every)}, slots})
}

// readRule returns what takes in an expression that is true or false, or a number.
func (f *scalerFile) readRule(to *string, bool bool) func(ast.Node) error {
	return func(n ast.Node) error {
		text, err := cli.YamlText(n)
		if err != nil {
			return err
		}
		*to = text
		err = autoscale.CheckRule(text, bool)
		if x := new(formula.Error); errors.As(err, &x) {
			return excerpt.Errorf("%s: %s", text, x.Text)
		}
		return err
	}
}

// readTimeout reads for how long a program may think, in real time.
func readTimeout(node ast.Node) (time.Duration, error) {
	text, err := cli.YamlText(node)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Millisecond {
		return 0, excerpt.Errorf("%s: want a time of at least 1ms, as 10s", text)
	}
	return d, nil
}

// readSlot reads a number of workers and from when on.
func (f *scalerFile) readSlot(node ast.Node) error {
	var s autoscale.Slot
	seen, err := f.readKeys(node, "a slot", yamlKey{"at", readTime(&s.At)}, yamlKey{"workers", readWhole(&s.Workers, 0, autoscale.MostWorkers)})
	if err == nil && len(seen) < 2 {
		err = f.errorAt(node, "want at and workers")
	}
	f.all.Slots = append(f.all.Slots, s)
	return err
}

// readTargets returns what takes in metrics with what they are to be.
func (f *scalerFile) readTargets(value string) func(ast.Node) error {
	return func(n ast.Node) error {
		f.all.Targets = nil
		return f.readList(n, "metrics", func(n ast.Node) error { return f.readTarget(n, value) })
	}
}

// readTarget reads a metric and what it is to be.
func (f *scalerFile) readTarget(node ast.Node, value string) error {
	var t autoscale.Target
	keys := []yamlKey{f.metricKey(&t.Metric), {value, readAmount(&t.Value)}}
	if value == "threshold" {
		keys = append(keys, yamlKey{"activation", readAmount(&t.Activation)})
	}
	seen, err := f.readKeys(node, "a metric", keys...)
	if err == nil && (!slices.Contains(seen, "metric") || !slices.Contains(seen, value)) {
		err = f.errorAt(node, "want metric and %s", value)
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

// readLaw returns what takes in a time, or a law of times.
func (f *scalerFile) readLaw(to *autoscale.Law) func(ast.Node) error {
	return func(node ast.Node) error {
		*to = autoscale.Law{}
		if _, ok := cli.YamlPairs(node); !ok {
			return readTime(&to.Mean)(node)
		}
		_, err := f.readKeys(node, "a law", yamlKey{"law", func(n ast.Node) (err error) {
			to.Name, err = readChoice(n, autoscale.Laws()...)
			return err
		}}, yamlKey{"mean", readTime(&to.Mean)}, yamlKey{"median", readTime(&to.Median)},
			yamlKey{"sigma", readAmount(&to.Sigma)}, yamlKey{"min", readTime(&to.Min)}, yamlKey{"max", readTime(&to.Max)})
		switch {
		case err != nil:
			return err
		case to.Name == "":
			return fmt.Errorf("want a time, or a law as {law: exponential, mean: 20s}")
		}
		return to.Check()
	}
}

// readBehavior reads how fast it goes in one direction.
func (f *scalerFile) readBehavior(node ast.Node, b *autoscale.Behavior) error {
	b.Set = true
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
