package offline

import (
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// readScaler reads an autoscaler: hpa=METRIC:TARGET, or keda=METRIC:THRESHOLD with a minimum of 0 workers. most=N is
// the maximum number of workers, every=MS the interval of decisions and scrapes, delay=MS the delay of a scrape, and
// image=MS the first step of the startup time. drain=MS is the timeout of drains, and loss=HOW sets the outcome of
// their requests. ratio=R sets R prefill workers for each decode worker.
func readScaler(t *testing.T, d *datadriven.TestData, x *trial) {
	kind := autoscale.HPA
	if d.HasArg("keda") {
		kind = autoscale.KEDA
	}
	if !d.HasArg(string(kind)) {
		return
	}
	var text string
	var every, delay, image, down, drain int
	a := autoscale.Default(kind)
	d.ScanArgs(t, string(kind), &text)
	d.ScanArgs(t, "most", &a.Max)
	d.ScanArgs(t, "every", &every)
	d.MaybeScanArgs(t, "delay", &delay)
	d.MaybeScanArgs(t, "image", &image)
	d.MaybeScanArgs(t, "down", &down)
	d.MaybeScanArgs(t, "drain", &drain)
	d.MaybeScanArgs(t, "loss", &a.OnKill)
	var target autoscale.Target
	for _, m := range autoscale.Metrics() {
		if _, err := fmt.Sscanf(text, string(m)+":%g", &target.Value); err == nil {
			target.Metric = m
		}
	}
	a.Targets = []autoscale.Target{target}
	a.Drain = sim.Time(drain)
	a.Sync, a.Interval, a.Delay = sim.Time(every), sim.Time(every), sim.Time(delay)
	if kind == autoscale.KEDA {
		a.Polling, a.Cooldown = sim.Time(every), sim.Time(down)
	}
	a.Startup.Image.Mean, a.Down = sim.Time(image), autoscale.Behavior{Set: true, Window: sim.Time(down)}
	if x.cfg.Autoscale = &a; x.cfg.Disaggregated() {
		x.cfg.AutoscaleDecode = &a
	}
	if d.HasArg("ratio") { // prefill workers per decode worker
		b := a
		b.Kind = autoscale.ByRatio
		d.ScanArgs(t, "ratio", &text)
		b.Ratio, _ = strconv.ParseFloat(text, 64)
		x.cfg.Autoscale = &b
	}
}

// scribeScaler is a scaler that records its inputs and decisions.
type scribeScaler struct {
	autoscale.Scaler
	s *scribe
}

func (x *scribeScaler) Want(s *autoscale.Signals) int {
	n := x.Scaler.Want(s)
	text := "nothing"
	if s.Held > 0 {
		text = fmt.Sprintf("of %g: %d held", float64(s.At), s.Held)
	} else if s.Ready > 0 {
		text = fmt.Sprintf("of %g: %d ready, %d running, %d waiting, KV %.3g", float64(s.At), s.Ready, s.Running, s.Waiting, s.KV)
	}
	who := "scaler"
	if s.Pool != "" {
		who = s.Pool + " " + who
	}
	x.s.writef("%s sees %s; has %d, wants %d", who, text, s.Workers, n)
	return n
}

// whim is a scaler that returns a random number of workers.
type whim struct {
	d    draw
	seen *[]autoscale.Signals
}

func (w whim) Want(s *autoscale.Signals) int {
	*w.seen = append(*w.seen, *s)
	return w.d.IntN(8) - 1
}

// watcher records the signals that a scaler receives.
type watcher struct {
	autoscale.Scaler
	blind bool // do not record signals, because they depend on how passes are taken
	seen  *[]autoscale.Signals
}

func (w watcher) Want(s *autoscale.Signals) int {
	*w.seen = append(*w.seen, *s)
	if w.blind {
		last := &(*w.seen)[len(*w.seen)-1]
		last.KV, last.Each = 0, nil
	}
	return w.Scaler.Want(s)
}

// autoscale draws an autoscaler.
func (d draw) autoscale() *autoscale.Config {
	a := autoscale.Default(pick(d, autoscale.HPA, autoscale.HPA, autoscale.KEDA, autoscale.ByRate, autoscale.Predict, autoscale.ByRules, autoscale.BySlots))
	a.Sync, a.Interval, a.Delay = pick(d, sim.Time(1), 3, 7.5, 20), pick(d, sim.Time(1), 2, 5), pick(d, sim.Time(0), 0, 4)
	a.RateWindow, a.Jitter = pick(d, sim.Time(0), 10, 30), pick(d, sim.Time(0), 0, 0.7)
	a.Min = 1 + d.IntN(2)
	if a.Kind != autoscale.HPA {
		a.Min = d.IntN(2)
	}
	a.Max = max(a.Min, 1) + d.IntN(5)
	if a.Drain = pick(d, sim.Time(0), 0, 1, 6); a.Drain > 0 {
		a.OnKill = pick(d, "", "lose", "retry", "migrate")
	}
	a.Startup.Image.Mean = pick(d, sim.Time(0), 2, 12.5)
	a.Startup.WarmUp = pick(d, autoscale.Law{}, autoscale.Law{Mean: 1}, autoscale.Law{Name: "uniform", Min: 1, Max: 9}, autoscale.Law{Name: "exponential", Mean: 5}, autoscale.Law{Name: "lognormal", Median: 3, Sigma: 1})
	switch a.Kind {
	case autoscale.HPA:
		a.Targets = []autoscale.Target{{Metric: pick(d, autoscale.Metrics()...), Value: pick(d, 0.1, 1, 3)}}
	case autoscale.KEDA:
		a.Targets = []autoscale.Target{{Metric: autoscale.Held, Value: 1}, {Metric: pick(d, autoscale.Metrics()...), Value: pick(d, 0.1, 1, 3), Activation: pick(d, 0.0, 1)}}
		a.Polling, a.Cooldown = pick(d, sim.Time(1), 5), pick(d, sim.Time(0), 3, 20)
	case autoscale.ByRate, autoscale.Predict:
		a.Load = &autoscale.Load{Metric: pick(d, autoscale.Rates()...), PerWorker: pick(d, 0.5, 20, 1000), Headroom: pick(d, 0.0, 0.5)}
		a.Min = max(a.Min, 1)
		a.Max = max(a.Max, a.Min)
	case autoscale.ByRules:
		a.Rules = pick(d,
			&autoscale.Rules{Want: "ceil((in_flight_total + held) / 2)", UpBy: 1, DownBy: 1},
			&autoscale.Rules{Up: "any(waiting > 0) or held > 0", Down: "all(running == 0) and max(kv_usage) < 0.5", UpBy: 2, DownBy: 1, DownCooldown: 4},
			&autoscale.Rules{Want: "max(1, requests_per_second + output_tokens_per_second * 0.01)", UpBy: 1, DownBy: 1, UpCooldown: 5})
	case autoscale.BySlots:
		a.Min = 1
		a.Slots = []autoscale.Slot{{At: 1, Workers: a.Max}, {At: 5.5, Workers: a.Min}, {At: 9, Workers: 1 + d.IntN(a.Max)}}
		a.Every = pick(d, sim.Time(0), 13)
	}
	if a.Kind == autoscale.Predict {
		a.Forecast.Predictor = pick(d, autoscale.Predictors()...)
		a.Forecast.Period, a.Forecast.Horizon = 3*a.Sync, pick(d, sim.Time(0), 10)
	}
	a.Down.Window, a.Up.Window = pick(d, sim.Time(0), 5, 30), pick(d, sim.Time(0), 0, 10)
	for _, b := range []*autoscale.Behavior{&a.Up, &a.Down} {
		b.Policies = pick(d, nil, []autoscale.Policy{{Workers: 1, Period: 4}}, []autoscale.Policy{{Percent: 50, Period: 3}, {Workers: 2, Period: 9}})
		b.Least, b.Off = d.oneIn(3), d.oneIn(10)
	}
	return &a
}

// autoscalers draws the autoscaler of one pool, or of both pools.
func (d draw) autoscalers(x *trial) {
	which := 0
	if x.cfg.Disaggregated() {
		which = d.IntN(3) // 2: both pools
	}
	for i := range x.cfg.Pools {
		if which < 2 && which != i {
			continue
		}
		a := d.autoscale()
		*[]**autoscale.Config{&x.cfg.Autoscale, &x.cfg.AutoscaleDecode}[i] = a
		least := max(a.Min, 1)
		x.cfg.Pools[i].Count = least + d.IntN(a.Max-least+1)
	}
	if which == 2 && d.oneIn(3) {
		a := *x.cfg.Autoscale
		a.Kind, a.Ratio = autoscale.ByRatio, pick(d, 0.4, 1, 2.5)
		x.cfg.Autoscale = &a
	}
}

// TestAutoscalers checks replays with random autoscalers. Every request is answered, tokens add up, the number of
// workers stays within its bounds, and runs of passes equal single passes.
func TestAutoscalers(t *testing.T) {
	each(t, 1000, func(t *testing.T, d draw, x *trial, text string) bool {
		d.autoscalers(x)
		x.cfg.Scale = nil
		if d.oneIn(4) {
			x.cfg.Topology.Admission = d.admissionRules()
		}
		seed := 0
		if d.oneIn(2) {
			seed = 1 + d.IntN(1000)
		}
		var left []*cluster
		var seen [2][]autoscale.Signals
		drive := func(single bool) maker {
			return func(r *run, _ *journal) (driver, error) {
				if seed > 0 {
					x := whim{newDraw(seed), &seen[len(left)]}
					r.cfg.Scalers = [2]autoscale.Scaler{x, x}
				}
				c, err := newCluster(r)
				if err != nil {
					return nil, err
				}
				for _, p := range c.pools {
					if seed == 0 && p.auto != nil {
						p.auto.scaler = watcher{p.auto.scaler, !p.auto.single, &seen[len(left)]}
					}
					p.metered = p.metered || single // one pass at a time
				}
				left = append(left, c)
				return c.runEvents, err
			}
		}
		one, two := x.run(drive(false)), x.run(drive(true))
		if isStuck(one.err) {
			return false
		}
		if one.err != nil {
			t.Fatalf("%v\n%s", one.err, x.show(text))
		}
		if text := left[0].unscaled(); text != "" {
			t.Fatalf("%s\n%s", text, x.show(text))
		}
		if !reflect.DeepEqual(seen[0], seen[1]) {
			t.Fatalf("runs and single passes: seen\n%+v\n%+v\n%s", seen[0], seen[1], x.show(text))
		}
		if diff := difference(one, two); diff != "" {
			t.Fatalf("runs and single passes: %s\n%s", diff, x.show(text))
		}
		return true
	})
}

// unscaled returns the first inconsistency of a cluster after its end, "" if it has none.
func (c *cluster) unscaled() string {
	if text := c.unbalanced(); text != "" {
		return text
	}
	killed := 0 // requests lost by a drain
	for _, s := range c.scaled {
		if s.Drains != nil {
			killed += s.Drains.Lost
		}
	}
	for id, r := range c.Collector.Requests() {
		if c.Collector.OutcomeOf(id) == collector.Lost {
			killed--
			continue
		}
		if r.Tokens != r.OutputTokens && c.Topology.Admission == nil && c.Collector.OutcomeOf(id) != collector.Rejected {
			return fmt.Sprintf("request %d has %d of %d tokens", id, r.Tokens, r.OutputTokens)
		}
	}
	if killed != 0 {
		return fmt.Sprintf("drains lost %d requests more than ended as lost", killed)
	}
	for _, p := range c.pools {
		a := p.auto
		if a == nil {
			continue
		}
		for _, size := range a.done.Sizes {
			if n := size.Ready + size.Starting; n < a.Min || n > a.Max || size.Ready < min(a.Min, 1) {
				return fmt.Sprintf("%+v, want %d to %d workers", size, a.Min, a.Max)
			}
		}
		last := a.done.Sizes[len(a.done.Sizes)-1]
		if got := last.Ready + last.Starting; got != a.wanted {
			return fmt.Sprintf("%d workers at the end, want %d", got, a.wanted)
		}
	}
	return ""
}
