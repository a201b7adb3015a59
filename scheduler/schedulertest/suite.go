package schedulertest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Setup is the configuration that a suite requires of a core.
type Setup struct {
	Tree             *prompt.Tree // prefix tree of the prompts
	BlockTokens      int          // tokens per KV block
	Blocks           int          // KV blocks
	MaxSeqs          int          // maximum number of running requests
	MaxBatchedTokens int          // maximum number of tokens computed per pass
}

// Run tests the core that build makes.
func Run(t *testing.T, build func(Setup) scheduler.Core) {
	const cases = 40
	for name, test := range map[string]func(*testing.T, *workload, func() scheduler.Core){
		"conserves":       testConserves,
		"repeats":         testRepeats,
		"runs expand":     testRunsExpand,
		"counts its load": testLoad,
		"runs one alone":  testAlone,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(cases) {
				w := newWorkload(seed)
				test(t, w, func() scheduler.Core { return build(w.setup) })
				if t.Failed() {
					t.Fatalf("seed %d: %s", seed, w)
				}
			}
		})
	}
}

// workload is a few requests and the setup of an engine that can only just run them.
type workload struct {
	setup    Setup
	arrivals []Arrival
}

func (w *workload) String() string {
	s := fmt.Sprintf("%d blocks of %d tokens, %d seats, budget %d",
		w.setup.Blocks, w.setup.BlockTokens, w.setup.MaxSeqs, w.setup.MaxBatchedTokens)
	for _, a := range w.arrivals {
		s += fmt.Sprintf("\n  %v: request %d, %d in, %d out", a.At, a.Request.ID, a.Request.InputTokens, a.Request.OutputTokens)
	}
	return s
}

// newWorkload draws prompts with common prefixes, and for every other seed an engine with few resources.
func newWorkload(seed uint64) *workload {
	rng := rand.New(rand.NewPCG(seed, 1))
	const blockTokens = 4
	w := &workload{setup: Setup{
		Tree: prompt.NewTree(2*blockTokens, blockTokens, prompt.Options{}), BlockTokens: blockTokens,
		Blocks: 4096, MaxSeqs: 64, MaxBatchedTokens: 256,
	}}
	at, largest := sim.Time(0), 0
	for id := range 1 + rng.IntN(12) {
		if rng.IntN(2) == 0 {
			at += sim.Time(rng.IntN(1000)) / 8
		}
		ids := make([]uint64, 1+rng.IntN(5))
		for i := range ids {
			ids[i] = uint64(1 + i*10 + rng.IntN(2))
		}
		r := &sim.Request{ID: sim.RequestID(id), InputTokens: 1 + rng.IntN(len(ids)*2*blockTokens), OutputTokens: 1 + rng.IntN(40)}
		r.Prompt = w.setup.Tree.Add(ids, r.InputTokens)
		w.arrivals = append(w.arrivals, Arrival{at, r})
		largest = max(largest, r.InputTokens+r.OutputTokens)
	}
	if seed%2 == 1 {
		w.setup.Blocks = 2*largest/blockTokens + 4
		w.setup.MaxSeqs = 2 + rng.IntN(6)
		w.setup.MaxBatchedTokens = 64
	}
	return w
}

func recordSteps(core scheduler.Core, arrivals []Arrival, s Stride) ([]Step, error) {
	var steps []Step
	err := Replay(core, arrivals, s, func(step Step) error {
		steps = append(steps, step)
		return nil
	})
	return steps, err
}

// life is the record of what a core reported about one request.
type life struct {
	admitted, firsts, seconds, lasts int
	first, last                      sim.Time
}

// testConserves checks that every request is admitted, gains its tokens in order, and leaves, and that the numbers of
// tokens add up.
func testConserves(t *testing.T, w *workload, build func() scheduler.Core) {
	core := build()
	lives := make([]life, len(w.arrivals))
	tokens, latencies := 0, 0
	err := Replay(core, w.arrivals, UntilArrival, func(s Step) error {
		tokens += s.Tokens
		latencies += len(s.Latencies)
		return w.followStep(lives, s)
	})
	if err != nil {
		t.Error(err)
		return
	}
	want := 0
	for id, l := range lives {
		r := w.arrivals[id].Request
		want += r.OutputTokens
		seconds := min(r.OutputTokens-1, 1)
		if l.admitted == 0 || l.firsts != 1 || l.lasts != 1 || l.seconds != seconds || l.first < w.arrivals[id].At || l.last < l.first {
			t.Errorf("request %d: %+v", id, l)
		}
	}
	if tokens != want || latencies != want-len(lives) {
		t.Errorf("%d tokens and %d latencies, expected %d and %d", tokens, latencies, want, want-len(lives))
	}
	if core.Load() != 0 {
		t.Errorf("load is %d in the end, must be 0", core.Load())
	}
}

// followStep records the results of a pass for each request.
func (w *workload) followStep(lives []life, s Step) error {
	for _, a := range s.Admitted {
		r := w.arrivals[a.Request].Request
		if a.Reused < 0 || a.Reused > r.InputTokens {
			return fmt.Errorf("request %d reuses %d of %d tokens", r.ID, a.Reused, r.InputTokens)
		}
		if a.Again && lives[a.Request].admitted == 0 {
			return fmt.Errorf("request %d is admitted again before it ever was", r.ID)
		}
		lives[a.Request].admitted++
	}
	for _, id := range s.Second {
		if lives[id].firsts != 1 {
			return fmt.Errorf("request %d has its second token before its first", id)
		}
		lives[id].seconds++
	}
	for _, m := range s.Marks {
		l := &lives[m.Request]
		if l.admitted == 0 || l.lasts != 0 {
			return fmt.Errorf("%+v of a request with %+v", m, *l)
		}
		if m.First {
			l.firsts, l.first = l.firsts+1, s.End
		}
		if m.Last {
			l.lasts, l.last = l.lasts+1, s.End
			if out := w.arrivals[m.Request].Request.OutputTokens; m.Tokens != out {
				return fmt.Errorf("request %d ends after %d tokens, must be %d", m.Request, m.Tokens, out)
			}
		}
	}
	return nil
}

// testRepeats checks that the same calls produce the same passes.
func testRepeats(t *testing.T, w *workload, build func() scheduler.Core) {
	first, err := recordSteps(build(), w.arrivals, UntilArrival)
	if err != nil {
		t.Error(err)
	}
	again, err := recordSteps(build(), w.arrivals, UntilArrival)
	if err != nil {
		t.Error(err)
	}
	diffSteps(t, "again", again, first)
}

// testRunsExpand checks that the results do not depend on how many passes run per Step, or on calls of Cut.
func testRunsExpand(t *testing.T, w *workload, build func() scheduler.Core) {
	want, err := recordSteps(build(), w.arrivals, OneByOne)
	if err != nil {
		t.Error(err)
	}
	for name, stride := range map[string]Stride{"until the next arrival": UntilArrival, "cut back": Overshoot} {
		got, err := recordSteps(build(), w.arrivals, stride)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		diffSteps(t, name, got, want)
	}
}

// testLoad checks that Load counts the submitted requests.
func testLoad(t *testing.T, w *workload, build func() scheduler.Core) {
	core := build()
	for i, a := range w.arrivals {
		if core.Load() != i {
			t.Errorf("load is %d after %d requests", core.Load(), i)
		}
		core.Submit(a.Request)
	}
}

// testAlone checks that requests that never overlap run without preemption and with one token per pass.
func testAlone(t *testing.T, w *workload, build func() scheduler.Core) {
	apart := make([]Arrival, len(w.arrivals))
	for i, a := range w.arrivals {
		apart[i] = Arrival{sim.Time(i) * (1 << 20), a.Request}
	}
	steps, err := recordSteps(build(), apart, UntilArrival)
	if err != nil {
		t.Error(err)
		return
	}
	running := 0
	for _, s := range steps {
		if s.Preempted > 0 || s.Tokens > 1 {
			t.Errorf("pass %+v of a core with one request", s)
			return
		}
		running += s.Tokens
	}
	if running == 0 {
		t.Error("no tokens")
	}
}

func diffSteps(t *testing.T, name string, got, want []Step) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%s: pass %d is\n%+v, expected\n%+v", name, i, got[i], want[i])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d passes, expected %d", name, len(got), len(want))
	}
}
