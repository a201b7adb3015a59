package generate

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/sim"
)

func config(arrivals string, requests int) Config {
	return Config{
		Arrivals: arrivals, Rate: 5, Requests: requests, Block: 64, Seed: 1,
		Classes: []Class{{Name: "a", Weight: 1, Input: "lognormal:mean=1000,sigma=0.8", Output: "uniform:min=10,max=20"}},
	}
}

func workload(t *testing.T, c Config) *loadgen.Workload {
	t.Helper()
	g, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w, err := formats.CollectRecords(g, "generated workload", c.Block)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The same seed generates the same workload, and another seed a different workload.
func TestSeed(t *testing.T) {
	c := config("gamma:cv=2", 200)
	a, b := workload(t, c), workload(t, c)
	if !reflect.DeepEqual(a, b) {
		t.Error("two workloads of one seed differ")
	}
	c.Seed++
	if reflect.DeepEqual(a.Turns, workload(t, c).Turns) {
		t.Error("another seed makes the same workload")
	}
}

// gaps returns the mean and the coefficient of variation of the gaps between arrivals. The mean is in s.
func gaps(w *loadgen.Workload) (mean, cv float64) {
	n := len(w.Sessions) - 1
	var sum, squares float64
	for i := range n {
		g := float64(w.Sessions[i+1].Arrival-w.Sessions[i].Arrival) / 1000
		sum += g
		squares += g * g
	}
	mean = sum / float64(n)
	return mean, math.Sqrt(squares/float64(n)-mean*mean) / mean
}

// Arrivals have the requested rate and burstiness.
func TestArrivals(t *testing.T) {
	for _, c := range []struct {
		arrivals string
		cv       float64
	}{{"constant", 0}, {"poisson", 1}, {"gamma:cv=0.5", 0.5}, {"gamma:cv=3", 3}} {
		mean, cv := gaps(workload(t, config(c.arrivals, 20000)))
		if math.Abs(mean-0.2) > 0.015 || math.Abs(cv-c.cv) > 0.05*c.cv+0.01 {
			t.Errorf("%s: gaps of %v s that vary by %v, want 0.2 and %v", c.arrivals, mean, cv, c.cv)
		}
	}
}

// counts returns the number of arrivals in each tenth of the duration.
func counts(w *loadgen.Workload, ms float64) (parts [10]float64) {
	for _, s := range w.Sessions {
		parts[int(float64(s.Arrival)/ms*10)]++
	}
	return parts
}

// The number of arrivals equals the integral of a variable rate.
func TestRatesOverTime(t *testing.T) {
	const ms = 1000e3
	for _, c := range []struct {
		arrivals string
		want     func(part float64) float64 // expected arrivals in tenth 0 to 9 of 1000 s
	}{
		{"ramp:to=25,cv=0", func(p float64) float64 { return 100 * (5 + 2*(p+0.5)) }},
		{"diurnal:amplitude=0.8,period=1000,peak=500,cv=0", func(p float64) float64 {
			turn := 2 * math.Pi / 10
			return 500 + 0.8*500/turn*(math.Sin(turn*(p+1-5))-math.Sin(turn*(p-5)))
		}},
		{"poisson", func(float64) float64 { return 500 }},
	} {
		k := config(c.arrivals, 0)
		k.Duration = sim.Time(ms)
		for i, n := range counts(workload(t, k), ms) {
			want := c.want(float64(i))
			if off := math.Abs(n - want); off > 1.5 && (c.arrivals != "poisson" || off > 100) {
				t.Errorf("%s: %v arrivals in part %d, want %v", c.arrivals, n, i, want)
			}
		}
	}
}

// Lengths have the requested mean, and min and max limit them.
func TestLaws(t *testing.T) {
	random := sim.NewRand(3, "test")
	for _, c := range []struct {
		law       string
		mean, tol float64
	}{
		{"1000", 1000, 0}, {"fixed:value=7", 7, 0}, {"uniform:min=10,max=20", 15, 0.2}, {"normal:mean=100,sd=20", 100, 1},
		{"lognormal:mean=1000,sigma=0.8", 1000, 30}, {"exponential:mean=5", 5, 0.2}, {"gamma:mean=50,cv=2", 50, 3},
		{"normal:mean=100,sd=200,min=90,max=110", 100, 1}, {"lognormal:median=100,sigma=1,max=100", 76, 2},
	} {
		law, err := parseLaw(c.law)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for range 20000 {
			sum += law.Draw(random)
		}
		if mean := sum / 20000; math.Abs(mean-c.mean) > c.tol {
			t.Errorf("%s: mean %v, want %v", c.law, mean, c.mean)
		}
	}
}

// Invalid distributions are errors with the reason.
func TestRefusedTexts(t *testing.T) {
	for _, text := range []string{"", "-5", "lognormal:mean=1000", "lognormal:mean=0,sigma=1", "uniform:min=5,max=4", "normal:mean=1,sd=x", "normal:mean=1,sd=1,colour=2", "gamma:mean=5,mean=6", "pareto:alpha=2", "empirical:file=none.csv", "uniform"} {
		if _, err := parseLaw(text); err == nil {
			t.Errorf("%q is taken for a law", text)
		}
	}
	for _, text := range []string{"", "bursty", "gamma", "gamma:cv=-1", "ramp:to=5", "users", "users:count=0", "diurnal:amplitude=2", "poisson:cv=1"} {
		if _, err := newProcess(Config{Arrivals: text, Rate: 1, Requests: 5}); err == nil {
			t.Errorf("%q is taken for arrivals", text)
		}
	}
	for _, text := range []string{"tree", "tree:depth=99,branch=2,tokens=5", "groups:count=5", "system:tokens=0", "prefix"} {
		if _, err := newPlan(text, nil); err == nil {
			t.Errorf("%q is taken for a prefix", text)
		}
	}
}

// Users share the requests and wait for their think time. Prompts grow from turn to turn.
func TestUsers(t *testing.T) {
	c := config("users:count=3,start=6", 8)
	c.Rate = 0
	c.Classes[0].Input, c.Classes[0].Output, c.Classes[0].Think = "100", "50", "2.5"
	w := workload(t, c)
	if len(w.Sessions) != 3 || len(w.Turns) != 8 {
		t.Fatalf("%d sessions of %d turns, want 3 of 8", len(w.Sessions), len(w.Turns))
	}
	for i, want := range []int32{3, 3, 2} {
		s := w.Sessions[i]
		if s.Turns != want || s.Arrival != sim.Time(2000*i) {
			t.Errorf("user %d has %d turns from %v ms, want %d from %d", i, s.Turns, float64(s.Arrival), want, 2000*i)
		}
	}
	last := w.Turns[2]
	if last.Input != 400 || last.Delay != 2500 || len(last.IDs) != 7 || last.IDs[1] != w.Turns[0].IDs[1] {
		t.Errorf("the third turn is %+v, want 400 tokens that begin with those before, after 2500 ms", last)
	}
}

// Prompts share the blocks of their common path in the prefix tree.
func TestPrefixTree(t *testing.T) {
	c := config("poisson", 3000)
	c.Classes[0].Input, c.Classes[0].Prefix = "640", "tree:depth=3,branch=4,tokens=128,zipf=1"
	w := workload(t, c)
	blocks := make([]map[uint64]int, 10)
	for b := range blocks {
		blocks[b] = map[uint64]int{}
		for i := range w.Turns {
			blocks[b][w.Turns[i].IDs[b]]++
		}
	}
	for b, want := range []int{1, 1, 4, 4, 16, 16, 3000, 3000, 3000, 3000} {
		if len(blocks[b]) != want {
			t.Errorf("block %d has %d contents, want %d", b, len(blocks[b]), want)
		}
	}
	most := 0
	for _, n := range blocks[2] {
		most = max(most, n)
	}
	if share := float64(most) / 3000; math.Abs(share-0.48) > 0.03 { // 1 / (1 + 1/2 + 1/3 + 1/4)
		t.Errorf("the first branch has a share of %v, want 0.48", share)
	}
}

// Classes have their shares of requests. Lengths from a trace are pairs of the trace.
func TestMix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := os.WriteFile(path, []byte("arrived_at,num_prefill_tokens,num_decode_tokens\n0,11,1\n1,22,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config("poisson", 5000)
	c.Classes = []Class{
		{Name: "a", Weight: 3, Input: "1000", Output: "5"},
		{Name: "b", Weight: 1, LengthsFrom: path},
	}
	w := workload(t, c)
	seen := map[[2]int]int{}
	for i := range w.Turns {
		seen[[2]int{int(w.Turns[i].Input), int(w.Turns[i].Output)}]++
	}
	if a := seen[[2]int{1000, 5}]; math.Abs(float64(a)/5000-0.75) > 0.03 || len(seen) != 3 || seen[[2]int{11, 1}] == 0 || seen[[2]int{22, 2}] == 0 {
		t.Errorf("lengths come %v times", seen)
	}
}

// Configurations without an end or without a rate are rejected.
func TestRefusedConfigs(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"must be one of them": func(c *Config) { c.Requests = 0 },
		"rate is 0":           func(c *Config) { c.Rate = 0 },
		"block is 0":          func(c *Config) { c.Block = 0 },
		"at least one":        func(c *Config) { c.Classes = nil },
		"weight is -1":        func(c *Config) { c.Classes[0].Weight = -1 },
		"class a: input is missing, must be a number of tokens": func(c *Config) { c.Classes[0].Input = "" },
		"output is 0, must be 1 to 2147483647":                  func(c *Config) { c.Classes[0].Name, c.Classes[0].Output = "", "0" },
		"input is 5e+09, must be 1 to":                          func(c *Config) { c.Classes[0].Input = "5e9" },
		"turns is 0, must be 1 to":                              func(c *Config) { c.Classes[0].Turns = "0" },
		"think: conversations have one request":                 func(c *Config) { c.Classes[0].Think = "3" },
		"turn input: conversations have one request":            func(c *Config) { c.Classes[0].TurnInput = "3" },
		"remove the rate and the duration":                      func(c *Config) { c.Arrivals = "users:count=2" },
		"cv is no setting of poisson, must be none":             func(c *Config) { c.Arrivals = "poisson:cv=2" },
		"remove the laws of input":                              func(c *Config) { c.Classes[0].LengthsFrom = "a.csv" },
		"requests are -1":                                       func(c *Config) { c.Requests = -1 },
		"duration is NaN ms":                                    func(c *Config) { c.Duration = sim.Time(math.NaN()) },
	} {
		c := config("poisson", 10)
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// BenchmarkGenerate measures generated requests per second.
func BenchmarkGenerate(b *testing.B) {
	c := config("poisson", 100_000)
	for b.Loop() {
		g, err := New(c)
		if err != nil {
			b.Fatal(err)
		}
		var r formats.Record
		for g.Next(&r) != io.EOF {
		}
	}
	b.ReportMetric(float64(100_000*b.N)/b.Elapsed().Seconds(), "requests/s")
}
