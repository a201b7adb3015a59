package reference_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// example is a run with the results that the reference printed.
type example struct {
	name        string
	blockTokens int
	change      func(*vllm.Config)
	lines       []line
	want        printed
}

// printed has the results to compare. Zero fields are not compared.
type printed struct {
	duration         sim.Time
	minTTFT, maxTTFT sim.Time
	meanTTFT         sim.Time
	minITL, maxITL   sim.Time
	reuse            float64
	tokens           [][]sim.Time // times of all tokens by request
}

func sequence(from, to uint64) []uint64 {
	var ids []uint64
	for id := from; id <= to; id++ {
		ids = append(ids, id)
	}
	return ids
}

func examples() []example {
	keep := func(*vllm.Config) {}
	a, b := sequence(1, 4), sequence(5, 8)
	return append([]example{
		{"plain", 512, keep, []line{{0, 1000, 5, []uint64{0, 1}}}, printed{
			duration: 60.83882400000002, meanTTFT: 37.852452, minITL: 5.746593000000004, maxITL: 5.746593000000004,
			tokens: [][]sim.Time{{37.852452, 43.599045000000004, 49.34563800000001, 55.09223100000001, 60.83882400000002}},
		}},
		{"chunked", 4, func(c *vllm.Config) { c.MaxBatchedTokens = 15 }, []line{{0, 16, 2, a}}, printed{
			duration: 44.755534999999995, maxTTFT: 38.999055, maxITL: 5.756479999999996,
		}},
		{"not chunked: head of line", 4, func(c *vllm.Config) { c.MaxBatchedTokens, c.ChunkedPrefill = 20, false },
			[]line{{0, 16, 2, a}, {0, 16, 2, b}}, printed{
				meanTTFT: 33.754709999999996, maxITL: 22.514123999999995,
				tokens: [][]sim.Time{{22.497647999999998, 45.01177199999999}, {45.01177199999999, 50.76825199999999}},
			}},
		{"chunked: two in a pass", 4, func(c *vllm.Config) { c.MaxBatchedTokens = 20 },
			[]line{{0, 16, 2, a}, {0, 16, 2, b}}, printed{
				tokens: [][]sim.Time{{22.561737, 45.01508}, {45.01508, 50.771559999999994}},
			}},
		{"averaging loses a token", 4, keep, []line{{0, 4, 1, []uint64{1, 2}}, {0, 5, 1, []uint64{3, 4}}}, printed{
			duration: 22.372802999999998, minTTFT: 22.372802999999998, maxTTFT: 22.372802999999998,
		}},
		{"prompt wholly cached", 4, keep, []line{{0, 16, 2, a}, {500, 16, 2, a}}, printed{
			duration: 511.509665, minTTFT: 5.753184999999974, maxTTFT: 22.497647999999998, reuse: 0.5,
		}},
		{"reuse within a pass", 4, keep, []line{{0, 16, 2, a}, {0, 18, 2, sequence(1, 5)}}, printed{
			duration: 28.291114, minTTFT: 22.531338, maxTTFT: 22.531338, reuse: 0.47058823529411764,
		}},
		{"caching off", 4, func(c *vllm.Config) { c.PrefixCaching = false }, []line{{0, 16, 2, a}, {500, 16, 2, a}}, printed{
			duration: 528.254128, minTTFT: 22.497647999999998,
		}},
		{"speed", 4, func(c *vllm.Config) { c.Clock.Speedup, c.Clock.DecodeSpeedup = 3, 2 }, []line{{0, 16, 2, a}}, printed{
			duration: 7.499765, meanTTFT: 6.540352,
		}},
		{"one seat", 4, func(c *vllm.Config) { c.MaxSeqs = 1 }, []line{{0, 4, 2, []uint64{1}}, {0, 4, 2, []uint64{2}}}, printed{
			tokens: [][]sim.Time{{22.305456, 28.052049}, {50.357505, 56.10409800000001}},
		}},
		{"cached requests need no budget", 4, func(c *vllm.Config) { c.MaxBatchedTokens = 20 },
			[]line{{0, 16, 3, a}, {100, 20, 1, []uint64{7, 7, 7, 7, 7}}, {100, 16, 2, a}, {100, 16, 2, a}}, printed{
				reuse: 0.47058823529411764,
				tokens: [][]sim.Time{nil, {122.574918}, {122.574918, 128.331398},
					{128.331398, 134.08787800000002}},
			}},
	}, tightExamples()...)
}

func tightExamples() []example {
	tight := func(blocks int) func(*vllm.Config) { return func(c *vllm.Config) { c.Blocks = blocks } }
	two := []line{{0, 7, 4, []uint64{1, 2}}, {0, 7, 4, []uint64{3, 4}}}
	head := []sim.Time{42.99368199999999, 77.003682, 111.01368199999999, 145.02368199999998}
	from := func(more ...sim.Time) []sim.Time { return append(slices.Clone(head), more...) }
	return []example{
		{"decode preempts itself", 4, tight(5), two, printed{
			duration: 207.44207100000003, minITL: 28.87960000000001, maxITL: 100.4944, reuse: 0.5,
		}},
		{"decode preempts the oldest", 4, func(c *vllm.Config) { c.Blocks, c.Preemption = 5, vllm.FIFO }, two, printed{
			duration: 197.18127100000004, reuse: 1,
			tokens: [][]sim.Time{
				{49.18847100000001, 81.66287100000001, 110.542471, 168.30167100000003},
				{49.18847100000001, 81.66287100000001, 139.42207100000002, 197.18127100000004},
			},
		}},
		{"decode preempts, nothing cached", 4, func(c *vllm.Config) { c.Blocks, c.PrefixCaching = 5, false }, two, printed{
			duration: 240.657521, maxITL: 133.70984999999996,
		}},
		{"admission preempts", 4, tight(5), []line{{0, 8, 6, []uint64{1, 2}}, {10, 12, 2, []uint64{3, 4, 5}}}, printed{
			duration: 315.56547600000005, reuse: 0.6, meanTTFT: 57.630154999999995,
			tokens: [][]sim.Time{
				{39.848513999999994, 130.853556, 225.33187600000002, 254.21147600000003, 283.09107600000004, 315.56547600000005},
				{85.411796, 179.890116},
			},
		}},
		{"eviction from the tail", 64, tight(10), []line{
			{0, 512, 2, sequence(0, 7)}, {1000, 512, 2, sequence(100, 107)}, {2000, 512, 2, sequence(0, 7)},
		}, printed{
			duration: 2089.362097, reuse: 0.041666666666666664,
			minTTFT: 55.862497000000076, maxTTFT: 56.86010400000009, minITL: 33.4996,
		}},
		{"three in turns", 4, func(c *vllm.Config) { c.Blocks, c.Preemption = 6, vllm.FIFO },
			[]line{{0, 4, 9, []uint64{1}}, {0, 4, 9, []uint64{2}}, {0, 4, 9, []uint64{3}}}, printed{
				duration: 558.212135, reuse: 4. / 12, minTTFT: head[0], maxTTFT: head[0],
				minITL: 34.00999999999999, maxITL: 127.45432,
				tokens: [][]sim.Time{
					from(228.46917499999998, 279.041335, 380.185655, 430.757815, 531.902135),
					from(179.03368199999997, 279.041335, 329.613495, 430.757815, 558.212135),
					from(179.03368199999997, 228.46917499999998, 329.613495, 380.185655, 481.329975),
				},
			}},
		{"profile", 512, func(c *vllm.Config) { c.Clock.Model = workedProfile(1, 3, 11.7, 30.1, 95.3) },
			[]line{{0, 1000, 3, []uint64{0, 1}}}, printed{meanTTFT: 219.58100000000002, maxITL: 124.50788599999998}},
		{"profile clamped", 512, func(c *vllm.Config) { c.Clock.Model = workedProfile(0.01, -300, -200, -100, -50) },
			[]line{{0, 1000, 3, []uint64{0, 1}}}, printed{meanTTFT: 1.24281, maxITL: 1.245079}},
	}
}

func workedProfile(scale float64, ttft ...float64) *timing.Table {
	grid := []float64{1.1, 2.2, 3.3, 2.7, 3.1, 4.9, 5, 6, 9.1, 10.3, 12.9, 20.7}
	for i := range grid {
		grid[i] *= scale
	}
	return &timing.Table{
		PrefillTokens: []float64{10, 100, 333, 1000}, PrefillMS: ttft,
		ActiveTokens: []float64{0, 50, 200, 1000}, ContextTokens: []float64{1, 20, 90}, DecodeMS: grid,
	}
}

// TestTwinExamples checks that the literal twin has the same results as the reference, token by token.
func TestTwinExamples(t *testing.T) {
	for _, e := range examples() {
		t.Run(e.name, func(t *testing.T) {
			c, arrivals := e.open()
			twin := newNaive(c)
			got, err := replay(twin, arrivals)
			if err != nil {
				t.Fatal(err)
			}
			e.want.check(t, got)
			for id, want := range e.want.tokens {
				if times := twin.times[sim.RequestID(id)]; want != nil && !slices.Equal(times, want) {
					t.Errorf("request %d: tokens at %v, want %v", id, times, want)
				}
			}
		})
	}
}

func TestExamples(t *testing.T) {
	for _, e := range examples() {
		t.Run(e.name, func(t *testing.T) {
			c, arrivals := e.open()
			got, err := replay(reference.New(c), arrivals)
			if err != nil {
				t.Fatal(err)
			}
			e.want.check(t, got)
		})
	}
}

func (e *example) open() (vllm.Config, []schedulertest.Arrival) {
	c := plain(e.blockTokens)
	e.change(&c)
	arrivals, tree := arrivals(e.lines, e.blockTokens, e.blockTokens, prompt.Options{})
	c.Tree = tree
	return c, arrivals
}

func (w *printed) check(t *testing.T, got outcome) {
	t.Helper()
	var ttft []sim.Time
	sum := sim.Time(0)
	for id, r := range got.records {
		ttft = append(ttft, r.first-r.arrived)
		sum += r.first - r.arrived
		if id < len(w.tokens) && w.tokens[id] != nil {
			times := w.tokens[id]
			if r.first != times[0] || r.last != times[len(times)-1] || len(times) > 1 && r.second != times[1] {
				t.Errorf("request %d: tokens at %v, %v … %v, want %v", id, r.first, r.second, r.last, times)
			}
		}
	}
	for _, c := range []struct {
		what      string
		got, want sim.Time
	}{
		{"duration", got.end, w.duration},
		{"min ttft", slices.Min(ttft), w.minTTFT},
		{"max ttft", slices.Max(ttft), w.maxTTFT},
		{"mean ttft", sum / sim.Time(len(ttft)), w.meanTTFT},
	} {
		if c.want != 0 && c.got != c.want {
			t.Errorf("%s = %v, want %v", c.what, c.got, c.want)
		}
	}
	if w.minITL != 0 && got.gaps[0] != w.minITL {
		t.Errorf("min itl = %v, want %v", got.gaps[0], w.minITL)
	}
	if w.maxITL != 0 && got.gaps[len(got.gaps)-1] != w.maxITL {
		t.Errorf("max itl = %v, want %v", got.gaps[len(got.gaps)-1], w.maxITL)
	}
	if w.reuse != 0 && got.reuse() != w.reuse {
		t.Errorf("reuse = %v, want %v", got.reuse(), w.reuse)
	}
}

// cores returns constructors of the twin and of the core.
func cores() map[string]func(vllm.Config) scheduler.Core {
	return map[string]func(vllm.Config) scheduler.Core{
		"twin": func(c vllm.Config) scheduler.Core { return newNaive(c) },
		"core": func(c vllm.Config) scheduler.Core { return reference.New(c) },
	}
}

// TestHandsOver runs one request on a prefill worker and a decode worker. The decode worker starts after the
// handover.
func TestHandsOver(t *testing.T) {
	for _, c := range []struct {
		name                  string
		prefill, decodeBudget int
		transfer              scheduler.Transfer
		ttft, duration        sim.Time
	}{
		{"plain", 8192, 8192, scheduler.Transfer{}, 22.497647999999998, 34.010608},
		{"decode budget 2", 8192, 2, scheduler.Transfer{}, 22.497647999999998, 34.010608},
		{"prefill budget 15", 15, 8192, scheduler.Transfer{}, 38.999055, 50.51201499999999},
		{"transfer", 8192, 8192, scheduler.Transfer{GBPerSecond: 1, BytesPerToken: 1000000}, 38.497648, 50.01060799999999},
		{"short transfer", 8192, 8192, scheduler.Transfer{GBPerSecond: 3, BytesPerToken: 7}, 22.497685333333337, 0},
	} {
		for name, open := range cores() {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				whole, tree := arrivals([]line{{0, 16, 3, sequence(1, 4)}}, 4, 4, prompt.Options{})
				prefill := plain(4)
				prefill.Tree, prefill.Role, prefill.MaxBatchedTokens, prefill.Transfer = tree, scheduler.Prefill, c.prefill, c.transfer
				first := *whole[0].Request
				first.OutputTokens = 1
				handed, err := replay(open(prefill), []schedulertest.Arrival{{Request: &first}})
				if err != nil {
					t.Fatal(err)
				}
				decode := plain(4)
				decode.Tree, decode.Role, decode.MaxBatchedTokens = tree, scheduler.Decode, c.decodeBudget
				whole[0].At = handed.records[0].last + handed.records[0].handoff
				done, err := replay(open(decode), whole)
				if err != nil {
					t.Fatal(err)
				}
				if got := done.records[0].first; got != c.ttft {
					t.Errorf("ttft = %v, want %v", got, c.ttft)
				}
				if c.duration != 0 && done.end != c.duration {
					t.Errorf("duration = %v, want %v", done.end, c.duration)
				}
			})
		}
	}
}

// hopeless lists runs that never end in the reference.
func hopeless() []example {
	keep := func(*vllm.Config) {}
	return []example{
		{"larger than the pool", 4, func(c *vllm.Config) { c.Blocks = 4 }, []line{{0, 13, 4, sequence(1, 4)}}, printed{}},
		{"prompt larger than the pool", 4, func(c *vllm.Config) { c.Blocks = 4 }, []line{{0, 20, 4, sequence(1, 5)}}, printed{}},
		{"prompt over the budget", 4, func(c *vllm.Config) { c.MaxBatchedTokens, c.ChunkedPrefill = 12, false },
			[]line{{0, 13, 4, sequence(1, 4)}}, printed{}},
		{"no output", 4, keep, []line{{0, 13, 0, sequence(1, 4)}}, printed{}},
		{"no output, wholly cached", 4, keep, []line{{0, 16, 1, sequence(1, 4)}, {0, 16, 0, sequence(1, 4)}}, printed{}},
		{"two that push each other out", 4, func(c *vllm.Config) { c.Blocks, c.MaxBatchedTokens = 4, 2 },
			[]line{{0, 13, 2, sequence(1, 4)}, {0, 8, 2, sequence(5, 6)}}, printed{}},
	}
}

// TestStalls checks that runs without end return a scheduler.StallError.
func TestStalls(t *testing.T) {
	for _, e := range hopeless() {
		for name, open := range cores() {
			t.Run(e.name+"/"+name, func(t *testing.T) {
				c, arrivals := e.open()
				_, err := replay(open(c), arrivals)
				var stall *scheduler.StallError
				if !errors.As(err, &stall) {
					t.Errorf("err = %v, want a stall", err)
				}
			})
		}
	}
}
