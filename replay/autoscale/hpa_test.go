package autoscale

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// seen returns signals with the given number of ready workers among all, and with kv as the mean of the metric.
func seen(at sim.Time, all, ready int, kv float64) *Signals {
	s := &Signals{Now: at, Workers: all, Scrape: Scrape{At: at + 1, Ready: ready}}
	s.spread(kv)
	return s
}

func hpaOf(change func(*Config)) Scaler {
	c := Default(HPA)
	c.Max, c.Targets = 1000, []Target{{Metric: KVUsage, Value: 0.1}}
	c.Up, c.Down = Behavior{Set: true}, Behavior{}
	if change != nil {
		change(&c)
	}
	return New(&c)
}

// TestHPAFormula checks the examples of Kubernetes' documentation of the algorithm. Twice the target doubles the
// workers, half of the target halves them, and ratios within the tolerance change nothing.
func TestHPAFormula(t *testing.T) {
	for _, tc := range []struct {
		workers, ready int
		kv             float64
		want           int
	}{
		{4, 4, 0.2, 8},
		{4, 4, 0.05, 2},
		{5, 5, 0.05, 3}, // 2.5, rounded up
		{4, 4, 0.109, 4},
		{4, 4, 0.091, 4},
		{4, 4, 0.112, 5},
		{4, 4, 0, 1},    // limited by the bound
		{6, 4, 0.2, 8},  // two starting workers count as idle: 0.8 in all
		{6, 4, 0.15, 6}, // with a sum of 0.6, the scaler requests six workers
		{8, 4, 0.15, 8}, // with idle workers the number would shrink, so no change happens
		{6, 4, 0.05, 2}, // idle workers do not count for shrinking
		{6, 0, 0, 6},    // no metric is known
	} {
		if got := hpaOf(nil).Want(seen(0, tc.workers, tc.ready, tc.kv)); got != tc.want {
			t.Errorf("%d workers, %d ready, at %v: want %d workers, got %d", tc.workers, tc.ready, tc.kv, tc.want, got)
		}
	}
}

// TestHPATakesTheHighestMetric checks that the metric with the highest number of workers counts.
func TestHPATakesTheHighestMetric(t *testing.T) {
	h := hpaOf(func(c *Config) {
		c.Targets = []Target{{Metric: KVUsage, Value: 0.1}, {Metric: Waiting, Value: 2}, {Metric: Held, Value: 1}}
	})
	s := seen(0, 4, 4, 0.05)
	s.Held = 3
	for i := range s.Each {
		s.Each[i].Waiting = 3
	}
	if got := h.Want(s); got != 6 {
		t.Errorf("got %d workers, want 6", got)
	}
}

// walk runs h for several ticks with a metric that requests the given numbers of workers. walk returns the resulting
// numbers of workers.
func walk(h Scaler, workers int, every sim.Time, wanted ...int) string {
	text := fmt.Sprint(workers)
	for i, n := range wanted {
		s := seen(sim.Time(i)*every, workers, workers, 0.1*float64(n)/float64(workers))
		workers = h.Want(s)
		text += fmt.Sprint(" ", workers)
	}
	return text
}

func repeat(n, times int) []int {
	all := make([]int, times)
	for i := range all {
		all[i] = n
	}
	return all
}

// TestHPAPolicies checks the documentation's example of policies: from 80 workers to 10, by 10 % or 4 workers per
// minute, whichever is more. 10 % of 72 is 7.2, which is rounded to 8. From 40 on, 4 workers are removed at a time.
func TestHPAPolicies(t *testing.T) {
	two := []Policy{{Workers: 4, Period: 60_000}, {Percent: 10, Period: 60_000}}
	for _, tc := range []struct {
		name   string
		change func(*Config)
		from   int
		to     []int
		want   string
	}{
		{"the faster", func(c *Config) { c.Down.Policies = two }, 80, repeat(10, 16), "80 72 64 57 51 45 40 36 32 28 24 20 16 12 10 10 10"},
		{"the slower", func(c *Config) { c.Down.Policies, c.Down.Least = two, true }, 80, repeat(40, 4), "80 76 72 68 64"},
		{"five in a minute", func(c *Config) { c.Down.Policies = []Policy{{Workers: 5, Period: 60_000}} }, 20, repeat(3, 5), "20 15 10 5 3 3"},
		{"never down", func(c *Config) { c.Down.Off = true }, 20, repeat(3, 2), "20 20 20"},
		{"the defaults up", func(c *Config) { c.Up.Policies = Default(HPA).Up.Policies }, 1, repeat(100, 6), "1 5 10 20 40 80 100"},
	} {
		if got := walk(hpaOf(tc.change), tc.from, 60_000, tc.to...); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
	// Within a period the changes add up.
	h := hpaOf(func(c *Config) { c.Down.Policies = []Policy{{Workers: 5, Period: 60_000}} })
	if got, want := walk(h, 20, 15_000, repeat(3, 9)...), "20 15 15 15 15 10 10 10 10 5"; got != want {
		t.Errorf("every 15 s: got %s, want %s", got, want)
	}
}

// TestHPAWindows checks stabilization windows. The number decreases to the maximum of the window, which includes the
// initial number. The number increases to the minimum of the window.
func TestHPAWindows(t *testing.T) {
	down := hpaOf(func(c *Config) { c.Down.Window = 300_000 })
	if got, want := walk(down, 10, 60_000, 4, 4, 6, 4, 4, 4, 4, 4), "10 10 10 10 10 10 6 6 4"; got != want {
		t.Errorf("down: got %s, want %s", got, want)
	}
	up := hpaOf(func(c *Config) { c.Up.Window = 60_000 })
	if got, want := walk(up, 2, 15_000, 8, 8, 4, 8, 8, 8, 8, 8), "2 2 2 2 2 4 4 8 8"; got != want {
		t.Errorf("up: got %s, want %s", got, want)
	}
}

// TestExporter checks that the scaler knows a scrape after the delay, and that rates are computed over the last
// minute.
func TestExporter(t *testing.T) {
	c := Default(HPA)
	c.Delay = 20_000
	e := Exporter{Config: &c}
	for i := range 20 {
		now := sim.Time(i+1) * 15_000
		e.Add(Scrape{At: now, Ready: 1, Arrived: (i + 1) * (i + 1)})
		got := e.Latest(now)
		if want := max(now-30_000, 0); got.At != want {
			t.Errorf("at %v: the scrape of %v, want that of %v", float64(now), float64(got.At), float64(want))
		}
		n := i - 1 // number of the latest known scrape, from 1
		if old := max(n-4, 0); n > 0 {
			want := float64(n*n-old*old) / float64(15*(n-old))
			if got.Rate != want {
				t.Errorf("at %v: %v requests a second, want %v", float64(now), got.Rate, want)
			}
		}
	}
}
