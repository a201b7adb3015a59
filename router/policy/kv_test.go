package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// TestRoundRobin checks that the turn is counted over all placements, not within the current set of workers
// (docs/rules/router.md).
func TestRoundRobin(t *testing.T) {
	r := inTurn(t, 3)
	var got []sim.WorkerID
	route := func(count int) {
		for range count {
			placed, err := r.Route(0, &sim.Request{}, nil)
			if err != nil || len(placed) != 1 {
				t.Fatalf("placed %v, error %v", placed, err)
			}
			got = append(got, placed[0].Worker)
		}
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	route(3)
	must(r.RemoveWorker(2))
	route(2) // 3 mod 2 is 1, then 0
	must(r.AddWorker(5))
	must(r.AddWorker(3))
	route(4)
	if want := []sim.WorkerID{0, 1, 2, 1, 0, 1, 3, 5, 0}; !slices.Equal(got, want) {
		t.Errorf("workers %v, want %v", got, want)
	}
	for _, w := range []sim.WorkerID{0, 1, 3, 5} {
		must(r.RemoveWorker(w))
	}
	var none *router.NoWorkersError
	if _, err := r.Route(0, &sim.Request{ID: 7}, nil); !errors.As(err, &none) || none.Request != 7 {
		t.Errorf("error %v, want no endpoints for request 7", err)
	}
}

func inTurn(t *testing.T, workers int) *router.Dispatcher {
	t.Helper()
	p, err := New(RoundRobin, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return router.New(router.Options{Policy: p, Workers: workers})
}

func TestWorkerErrors(t *testing.T) {
	s := newStand(t, `{}`, setup{Workers: 2})
	for _, r := range []*router.Dispatcher{inTurn(t, 2), s.d} {
		for _, c := range []struct {
			err  error
			want string
		}{
			{r.AddWorker(1), "router worker 1 already exists"},
			{r.RemoveWorker(9), "router worker 9 does not exist"},
		} {
			if errText(c.err) != c.want {
				t.Errorf("%T: error %v, want %s", r, c.err, c.want)
			}
		}
	}
	if err := s.d.Observe(2, &scheduler.Pass{}); errText(err) != "router worker 2 does not exist" {
		t.Errorf("error %v for the cache of an unknown worker", err)
	}
	s.remove(1)
	if err := s.d.Observe(1, &scheduler.Pass{}); err != nil {
		t.Errorf("error %v for the cache of a worker that is leaving", err)
	}
}

func TestRequestErrors(t *testing.T) {
	s := newStand(t, `{"router_queue_threshold":0}`, setup{Workers: 1})
	a := s.arrive(0, 1)
	b := s.arrive(0, 2)
	s.want("A w0 2")
	s.note(s.d.Route(1, a, nil))
	s.note(s.d.Route(1, b, nil))
	s.note(s.d.PrefillDone(1, b.ID, nil))
	s.note(s.d.PrefillDone(1, 99, nil))
	s.note(s.d.Finished(1, 99, nil))
	s.want(
		"Request 0 already exists (assigned to worker 0)",
		"Request 1 already exists (held in the queue)",
		"Request 1 not found",
		"Request 99 not found",
	)
	s.prefillDone(2, a)
	s.want("B w0 3")
	s.prefillDone(3, a) // a second call has no effect
	s.finish(4, a)
	s.finish(5, a)
	s.prefillDone(5, b)
	s.want()
	s.note(s.d.Route(6, a, nil)) // finished requests are unknown
	s.want("A w0 3")
}

// TestTies checks that a tie goes to the lowest id, and that a single worker has no second.
func TestTies(t *testing.T) {
	s := newStand(t, `{"overlap_score_credit":0,"router_track_active_blocks":false,"router_track_prefill_tokens":false}`, setup{Workers: 3})
	for range 3 {
		s.arrive(0, 1)
		if s.last.Worker != 0 || s.last.Second != 1 || s.last.Cost != s.last.SecondCost {
			t.Errorf("placement %+v, want worker 0, then 1 at the same cost", s.last)
		}
	}
	s.remove(0)
	s.remove(1)
	s.arrive(0, 1)
	if s.last.Worker != 2 || s.last.Second != router.None {
		t.Errorf("placement %+v, want worker 2 and no second", s.last)
	}
}

// TestShortestKeyOfAnyone checks the order of held requests. The wspt key includes every rank and every worker that
// was ever registered (docs/rules/router.md "The queue").
func TestShortestKeyOfAnyone(t *testing.T) {
	s := newStand(t, `{"router_queue_threshold":0,"router_queue_policy":"wspt"}`, setup{Workers: 2, Exact: true})
	a := s.arrive(0, 1, 2, 3)
	b := s.arrive(0, 4)
	s.cache(a)
	pass := s.stored(b, 0)
	pass.Events[0].Rank = 5
	s.observe(1, pass)
	s.remove(0)
	s.arrive(1, 1, 2, 3) // cached on worker 0, which has left: 1 token
	s.arrive(1, 9)       // 64 tokens
	s.arrive(1, 4, 9)    // 64 tokens, because of rank 5
	s.arrive(1, 8, 9)    // 128 tokens
	if got := fmt.Sprint(s.d.Waiting(nil)); got != "[2 3 4 5]" {
		t.Errorf("waiting %s, want [2 3 4 5]", got)
	}
	s.log = nil
	s.finish(2, b)
	if s.last.Overlap != 0 {
		t.Errorf("overlap %d with a block of rank 5, want 0", s.last.Overlap)
	}
	s.want("C w1 6")
}

// TestTemperature checks the random choice between two workers. The cheaper worker has the probability
// 1/(1+exp(-1/T)) for any difference of costs (docs/rules/router.md "Cost").
func TestTemperature(t *testing.T) {
	for _, temperature := range []float64{0.5, 1, 2} {
		config := fmt.Sprintf(`{"router_temperature":%v,"router_queue_threshold":null}`, temperature)
		draw := func(seed uint64) (share float64, workers []sim.WorkerID) {
			s := newStand(t, config, setup{Seed: seed})
			hold := s.arrive(0, 1, 2)
			const draws = 2000
			cheap := 0
			for range draws {
				q := s.arrive(1, 3)
				w := s.worker(q)
				if workers = append(workers, w); w != s.worker(hold) {
					cheap++
				}
				s.finish(1, q)
			}
			return float64(cheap) / draws, workers
		}
		share, once := draw(0)
		if want := 1 / (1 + math.Exp(-1/temperature)); math.Abs(share-want) > 0.03 {
			t.Errorf("temperature %v: the cheaper worker got %v of the requests, want about %v", temperature, share, want)
		}
		if _, again := draw(42); !slices.Equal(once, again) {
			t.Error("the default seed is not 42")
		}
		if _, other := draw(43); slices.Equal(once, other) {
			t.Error("another seed draws the same")
		}
	}
}

func TestPick(t *testing.T) {
	for _, c := range []struct {
		u    float64
		want int
	}{{0, 0}, {0.25, 0}, {0.26, 1}, {0.75, 1}, {0.99, 2}, {math.Nextafter(1, 2), 2}} {
		if got := pickIndex([]float64{1, 2, 1}, 4, c.u); got != c.want {
			t.Errorf("u=%v picks %d, want %d", c.u, got, c.want)
		}
	}
}

// TestUniquePrompts checks that prompts that share nothing are never cached and count in full.
func TestUniquePrompts(t *testing.T) {
	both(t, func(t *testing.T, exact bool) {
		s := newStand(t, `{}`, setup{Workers: 1, Exact: exact})
		prompts := s.tree.AddSynthetic(3, 130)
		for i := range prompts.Len() {
			q := &sim.Request{ID: sim.RequestID(i), InputTokens: 130, Prompt: prompts.At(i)}
			s.note(s.d.Route(0, q, nil))
			s.prefillDone(0, q)
		}
		s.want("A w0 4.03125", "B w0 6.03125", "C w0 8.03125")
		for i := range sim.RequestID(3) {
			s.note(s.d.Finished(1, i, nil))
		}
		if got := s.d.Loads().Blocks[0]; got != 0 {
			t.Errorf("%d active blocks in the end, want 0", got)
		}
	})
}

// TestLimit checks that an unlimited budget counts as ten million tokens. A worker is busy above the limit, not at
// the limit.
func TestLimit(t *testing.T) {
	tree := prompt.NewTree(64, 64, prompt.Options{})
	for _, c := range []struct {
		budget, tokens int
		placed         int
	}{{0, 10_000_000, 1}, {0, 10_000_001, 0}, {128, 128, 1}, {128, 129, 0}} {
		config := router.DefaultConfig()
		once := 1.0
		config.QueueThreshold = &once
		d := setup{Config: config, Workers: 1, Tree: tree, MaxBatchedTokens: c.budget}.dispatcher(t)
		for i, want := range []int{1, c.placed} {
			placed, err := d.Route(0, &sim.Request{ID: sim.RequestID(i), InputTokens: c.tokens}, nil)
			if err != nil || len(placed) != want {
				t.Errorf("budget %d: request %d of %d tokens: placed %v, error %v, want %d", c.budget, i, c.tokens, placed, err, want)
			}
		}
	}
}

// TestManyWorkers checks that cached and active blocks stay known when ids exceed the bits of a word.
func TestManyWorkers(t *testing.T) {
	both(t, func(t *testing.T, exact bool) {
		s := newStand(t, `{"router_queue_threshold":null}`, setup{Workers: 64, Exact: exact})
		s.cache(s.arrive(0, 1, 2, 3, 4))
		s.cache(s.arrive(0, 5, 6))
		for w := sim.WorkerID(64); w < 130; w++ {
			s.add(w)
		}
		for w := sim.WorkerID(0); w < 129; w++ {
			s.remove(w)
		}
		s.cache(s.arrive(1, 7, 8, 9))
		s.add(130)
		s.arrive(2, 7, 8, 9, 10) // 7-3+4 on worker 129, which has 3 active blocks; 8 on the idle worker
		s.want("A w0 8", "B w1 4", "C w129 6", "D w129 8")
		if got := s.d.Loads().Blocks; got[0] != 4 || got[129] != 4 {
			t.Errorf("active blocks %v", got)
		}
	})
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestEstimatorWanted checks that a configuration that requires an estimator is rejected for workers that compute
// prompts.
func TestEstimatorWanted(t *testing.T) {
	with := router.DefaultConfig()
	with.PrefillLoadModel = router.LoadAIC
	const refused = "router_prefill_load_model='aic' requires aic_perf_config"
	for role, want := range map[scheduler.Role]string{scheduler.Aggregated: refused, scheduler.Prefill: refused, scheduler.Decode: ""} {
		if _, err := New(KV, Options{Config: with, Role: role, BlockTokens: 64}); errText(err) != want {
			t.Errorf("%v: error %v, want %q", role, err, want)
		}
	}
}
