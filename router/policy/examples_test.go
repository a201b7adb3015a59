package policy

import (
	"fmt"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// TestCacheAffinity checks that a prompt goes to the worker with its cached prefix.
func TestCacheAffinity(t *testing.T) {
	both(t, func(t *testing.T, exact bool) {
		s := newStand(t, `{}`, setup{Exact: exact})
		s.serve(43, s.arrive(0, 1, 2, 3, 4))
		s.serve(243, s.arrive(200, 1, 2, 3, 5))
		if s.last.Overlap != 3 || s.last.Blocks != 4 || s.last.Second != 1 || s.last.SecondCost != 8 {
			t.Errorf("placement %+v, want overlap 3 of 4 blocks, worker 1 second at 8", s.last)
		}
		s.serve(443, s.arrive(400, 1, 2))
		s.want("A w0 8", "B w0 5", "C w0 2")
	})
}

// TestCostSwitches compares load and cache, with and without each part of the cost.
func TestCostSwitches(t *testing.T) {
	for _, c := range []struct {
		config string
		costs  [3]float64
	}{
		{`{}`, [3]float64{8, 8, 8}},
		{`{"router_track_active_blocks":false}`, [3]float64{4, 4, 4}},
		{`{"router_assume_kv_reuse":false}`, [3]float64{8, 8, 12}},
		{`{"router_track_prefill_tokens":false}`, [3]float64{4, 4, 4}},
		{`{"overlap_score_credit":0.5}`, [3]float64{8, 8, 10}},
		{`{"prefill_load_scale":0}`, [3]float64{4, 4, 4}},
		{`{"overlap_score_weight":0}`, [3]float64{4, 4, 4}},
		{`{"overlap_score_weight":2}`, [3]float64{12, 12, 12}},
	} {
		t.Run(c.config, func(t *testing.T) {
			both(t, func(t *testing.T, exact bool) {
				s := newStand(t, c.config, setup{Exact: exact})
				s.cache(s.arrive(0, 1, 2, 3, 4))
				s.cache(s.arrive(1, 1, 2, 3, 5))
				s.arrive(2, 1, 2, 3, 4)
				s.want(
					fmt.Sprintf("A w0 %v", c.costs[0]),
					fmt.Sprintf("B w1 %v", c.costs[1]),
					fmt.Sprintf("C w0 %v", c.costs[2]),
				)
			})
		})
	}
}

// TestWeights uses a partial credit and a double weight of prefill.
func TestWeights(t *testing.T) {
	both(t, func(t *testing.T, exact bool) {
		s := newStand(t, `{"overlap_score_credit":0.25,"prefill_load_scale":2.0}`, setup{Exact: exact})
		s.serve(50, s.arrive(0, 1, 2, 3, 4, 5, 6, 7, 8))
		s.cache(s.arrive(200, 1, 2, 3, 4, 5, 6, 7, 8))
		s.cache(s.arrive(201, 1, 2, 3, 4, 9, 10, 11, 12))
		if s.last.SecondCost != 26 {
			t.Errorf("C costs %v on worker 0, want 26", s.last.SecondCost)
		}
		s.arrive(202, 1, 2, 3, 4, 5, 6, 7, 8)
		if s.last.SecondCost != 42 {
			t.Errorf("D costs %v on worker 1, want 42", s.last.SecondCost)
		}
		s.want("A w0 24", "B w0 20", "C w1 24", "D w0 20")
	})
}

// TestQueue checks that requests wait while both workers have more tokens to compute than the limit, and that they
// are released in the order of the policy.
func TestQueue(t *testing.T) {
	for _, c := range []struct {
		config        string
		arrival       []string // placements at the arrivals of A to E
		atA, atB, atD []string // placements at the first tokens of A, B and D
		queued        int      // held requests after the arrivals
	}{
		{
			config: `{"router_queue_threshold":0.5}`, arrival: []string{"A w0 8", "B w1 8"}, queued: 3,
			atA: []string{"C w0 20"}, atB: []string{"D w1 8", "E w1 16"},
		}, {
			config: `{"router_queue_threshold":0.5,"router_queue_policy":"lcfs"}`, arrival: []string{"A w0 8", "B w1 8"}, queued: 3,
			atA: []string{"E w0 12"}, atB: []string{"D w1 8", "C w1 24"},
		}, {
			config: `{"router_queue_threshold":0.5,"router_queue_policy":"wspt"}`, arrival: []string{"A w0 8", "B w1 8"}, queued: 3,
			atA: []string{"D w0 8", "E w0 16"}, atB: []string{"C w1 20"},
		}, {
			config:  `{"router_queue_threshold":null}`,
			arrival: []string{"A w0 8", "B w1 8", "C w0 24", "D w1 12", "E w1 20"},
		}, {
			config: `{"router_queue_threshold":0}`, arrival: []string{"A w0 8", "B w1 8"}, queued: 3,
			atA: []string{"C w0 20"}, atB: []string{"D w1 8"}, atD: []string{"E w1 14"},
		},
	} {
		t.Run(c.config, func(t *testing.T) {
			s := newStand(t, c.config, setup{MaxBatchedTokens: 256})
			a := s.arrive(0, 1, 2, 3, 4)
			b := s.arrive(1, 5, 6, 7, 8)
			s.arrive(2, 11, 12, 13, 14, 15, 16, 17, 18)
			d := s.arrive(3, 21, 22)
			s.arrive(4, 31, 32, 33, 34)
			s.want(c.arrival...)
			if s.d.Queued() != c.queued {
				t.Errorf("%d requests wait, want %d", s.d.Queued(), c.queued)
			}
			s.prefillDone(26, a)
			s.want(c.atA...)
			s.prefillDone(30, b)
			s.want(c.atB...)
			s.prefillDone(48, d)
			s.want(c.atD...)
			if s.d.Queued() != 0 {
				t.Errorf("requests %v still wait", s.d.Waiting(nil))
			}
		})
	}
}

// TestFrozenOverlap checks that the overlap is computed at the arrival, and active blocks at the release.
func TestFrozenOverlap(t *testing.T) {
	both(t, func(t *testing.T, exact bool) {
		s := newStand(t, `{"router_queue_threshold":0.5}`, setup{Exact: exact, MaxBatchedTokens: 256})
		a := s.arrive(0, 1, 2, 3, 4)
		s.arrive(0, 5, 6, 7, 8)
		s.arrive(0, 1, 2, 3, 4)
		s.cache(a)
		s.want("A w0 8", "B w1 8")
		s.prefillDone(26.169156, a)
		s.want("C w0 8")
		if s.last.Overlap != 0 || s.last.SecondCost != 16 {
			t.Errorf("placement %+v, want overlap 0 and worker 1 at 16", s.last)
		}
	})
	// Worker 1 is free first.
	s := newStand(t, `{"router_queue_threshold":0.5}`, setup{MaxBatchedTokens: 256})
	s.arrive(0, 1, 2, 3, 4)
	b := s.arrive(0, 5, 6, 7, 8)
	s.arrive(0, 1, 2, 3, 4)
	s.want("A w0 8", "B w1 8")
	s.prefillDone(26.169156, b)
	s.want("C w0 12")
	if s.last.SecondCost != 12 {
		t.Errorf("C costs %v on worker 1, want a tie at 12", s.last.SecondCost)
	}
}

// TestBudgetsOfWorkers checks that requests are held while every worker exceeds the limit of its budget.
func TestBudgetsOfWorkers(t *testing.T) {
	s := newStand(t, `{"router_queue_threshold":0.5}`, setup{MaxBatchedTokens: 256, WorkerBatches: []int{256, 1024}})
	for i := range uint64(8) { // of 256 tokens each; worker 0 is busy above 128 tokens, worker 1 above 512
		s.arrive(0, 4*i+1, 4*i+2, 4*i+3, 4*i+4)
	}
	s.want("A w0 8", "B w1 8", "C w0 16", "D w1 16", "E w0 24", "F w1 24")
	if n := s.d.Queued(); n != 2 {
		t.Errorf("%d requests are held, want the last two", n)
	}
}

// TestEvictionDisaggregated checks that evicted blocks give no credit, and that the decode router counts only blocks.
func TestEvictionDisaggregated(t *testing.T) {
	both(t, func(t *testing.T, exact bool) {
		s := newStand(t, `{}`, setup{Exact: exact, Workers: 1, Role: scheduler.Prefill})
		d := newStand(t, `{}`, setup{Exact: exact, Workers: 1, Role: scheduler.Decode, Tree: s.tree})
		short, long := []uint64{1, 2, 3, 4}, []uint64{5, 6, 7, 8, 9, 10}
		for i, step := range []struct {
			ids     []uint64
			evicted []uint64
			from    int
			overlap int32
		}{
			{ids: short},
			{ids: short, overlap: 4},
			{ids: long, evicted: short, from: 1},
			{ids: short, evicted: long, from: 3, overlap: 1},
			{ids: long, overlap: 3},
		} {
			q := s.arrive(sim.Time(100*i), step.ids...)
			if s.last.Overlap != step.overlap {
				t.Errorf("request %d: overlap %d, want %d", i, s.last.Overlap, step.overlap)
			}
			s.serve(sim.Time(100*i+30), q)
			if step.evicted != nil {
				s.evict(0, &sim.Request{Prompt: s.tree.Add(step.evicted, traceTokens*len(step.evicted))}, step.from)
			}
			d.finish(sim.Time(100*i+50), d.arrive(sim.Time(100*i+30), step.ids...))
		}
		s.want("A w0 4", "B w0 0", "C w0 6", "D w0 3", "E w0 3")
		d.want("A w0 4", "B w0 4", "C w0 6", "D w0 4", "E w0 6")
	})
}

// TestPrefillQueueDisaggregated checks that held prefills are released by their uncached tokens.
func TestPrefillQueueDisaggregated(t *testing.T) {
	config := `{"router_queue_threshold":1,"router_queue_policy":"wspt"}`
	s := newStand(t, config, setup{Workers: 1, Role: scheduler.Prefill, MaxBatchedTokens: 128})
	d := newStand(t, config, setup{Workers: 1, Role: scheduler.Decode, MaxBatchedTokens: 128, Tree: s.tree})
	a := s.arrive(0, 1, 2, 3, 4)
	b := s.arrive(1, 5, 6)
	c := s.arrive(2, 7)
	e := s.arrive(3, 8, 9, 10, 11)
	s.want("A w0 4")
	if got := fmt.Sprint(s.d.Waiting(nil)); got != "[2 1 3]" {
		t.Errorf("waiting %v, want [2 1 3]", got)
	}
	done := func(now float64, q *sim.Request) {
		s.prefillDone(sim.Time(now), q)
		s.finish(sim.Time(now), q)
		d.note(d.d.Route(sim.Time(now), q, nil))
	}
	done(26, a)
	s.want("C w0 1", "B w0 3")
	done(40, c)
	s.want("D w0 6")
	d.finish(41, a)
	done(41, b)
	d.finish(60, c)
	d.finish(60, b)
	done(70, e)
	d.want("A w0 4", "C w0 5", "B w0 3", "D w0 4")
}

// TestCachingOff checks engines without a cache. The engines announce blocks under different names, but the tokens of
// the blocks match.
func TestCachingOff(t *testing.T) {
	s := newStand(t, `{}`, setup{Exact: true})
	for i := range 3 {
		q := s.arrive(sim.Time(100*i), 1, 2, 3, 4)
		if want := int32(4 * min(i, 1)); s.last.Overlap != want {
			t.Errorf("request %d: overlap %d, want %d", i, s.last.Overlap, want)
		}
		s.observe(s.worker(q), s.stored(q, uint64(i+1)<<40))
		s.prefillDone(sim.Time(100*i+30), q)
		s.finish(sim.Time(100*i+50), q)
	}
	s.want("A w0 8", "B w0 4", "C w0 4")
}

// TestPartialBlocks checks that tokens of a partial block are computed and not cached.
func TestPartialBlocks(t *testing.T) {
	both(t, func(t *testing.T, exact bool) {
		s := newStand(t, `{}`, setup{Exact: exact})
		s.serve(50, s.arriveCut(0, 150, 1, 2, 3))
		if s.last.Blocks != 3 {
			t.Errorf("150 tokens are %d blocks, want 3", s.last.Blocks)
		}
		s.serve(150, s.arriveCut(100, 190, 1, 2, 3))
		s.arriveCut(200, 30, 1)
		s.want("A w0 4.34375", "B w0 2.96875", "C w0 0.46875")
	})
}

// TestSGLangLoadOnly checks that SGLang's events, which announce single tokens, match no block of 64 tokens.
func TestSGLangLoadOnly(t *testing.T) {
	s := newStand(t, `{}`, setup{Exact: true})
	s.arrive(0, 1, 2, 3, 4)
	s.observe(0, storedTokens(1, 256, 0))
	s.arrive(1, 1, 2, 3, 5)
	if s.last.SecondCost != 13 {
		t.Errorf("B costs %v on worker 0, want 13", s.last.SecondCost)
	}
	s.prefillDone(50, s.sent[0])
	s.finish(60, s.sent[0])
	s.prefillDone(50, s.sent[1])
	s.finish(60, s.sent[1])
	s.arrive(100, 1, 2, 3, 4)
	s.want("A w0 8", "B w1 8", "C w0 8")
}

// TestSGLangZeros uses two tokens per block, so that an announced token 0 looks like a block of zeros. Lookups use
// the rank of the announced blocks only for worker 0.
func TestSGLangZeros(t *testing.T) {
	zeros := func(t *testing.T) *stand {
		tree := prompt.NewTree(traceTokens, 2, prompt.Options{Wrap: true})
		return newStand(t, `{}`, setup{Exact: true, Tree: tree})
	}
	serve := func(s *stand, now float64, token uint64, ids ...uint64) {
		q := s.arrive(sim.Time(now), ids...)
		w := s.worker(q)
		s.observe(w, storedTokens(token, q.InputTokens, int32(w)))
		s.prefillDone(sim.Time(now+30), q)
		s.finish(sim.Time(now+40), q)
	}
	t.Run("alone", func(t *testing.T) {
		s := zeros(t)
		for _, now := range []float64{0, 500, 1000} {
			serve(s, now, 0, 0)
		}
		s.want("A w0 64", "B w0 32", "C w0 32")
	})
	t.Run("beside a long one", func(t *testing.T) {
		s := zeros(t)
		long := s.arrive(0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7)
		serve(s, 1, 0, 0)
		if s.last.SecondCost != 704 {
			t.Errorf("B costs %v on worker 0, want 704", s.last.SecondCost)
		}
		s.prefillDone(400, long)
		s.finish(410, long)
		serve(s, 500, 0, 0)
		serve(s, 1000, 0, 0)
		s.want("A w0 640", "B w1 64", "C w0 64", "D w0 32")
	})
	t.Run("other tokens", func(t *testing.T) {
		s := zeros(t)
		serve(s, 0, 5, 5)
		serve(s, 500, 5, 5)
		s.want("A w0 64", "B w0 64")
	})
}

// TestScaling adds and removes workers, and checks that their caches stay known.
func TestScaling(t *testing.T) {
	both(t, func(t *testing.T, exact bool) {
		s := newStand(t, `{"router_queue_threshold":0.5}`, setup{Exact: exact, Workers: 1, MaxBatchedTokens: 256})
		a := s.arrive(0, 1, 2, 3, 4)
		s.cache(a)
		b := s.arrive(1, 5, 6, 7, 8)
		c := s.arrive(2, 1, 2, 3, 4)
		s.want("A w0 8")
		s.add(1)
		s.note(s.d.Drain(2, nil))
		s.want("B w1 8")
		s.cache(b)
		if s.last.SecondCost != 16 {
			t.Errorf("B costs %v on worker 0, want 16", s.last.SecondCost)
		}
		s.prefillDone(26, a)
		s.want("C w0 4")
		if s.last.Overlap != 4 || s.last.SecondCost != 16 {
			t.Errorf("placement %+v, want overlap 4 and worker 1 at 16", s.last)
		}
		s.prefillDone(31, b)
		s.prefillDone(32, c)
		for _, q := range []*sim.Request{a, b, c} {
			s.finish(60, q)
		}
		d := s.arrive(100, 1, 2, 3, 4)
		s.want("D w0 4")
		if s.last.SecondCost != 8 {
			t.Errorf("D costs %v on worker 1, want 8", s.last.SecondCost)
		}
		s.finish(123, d)
		s.remove(1)
		s.note(s.d.Drain(150, nil))
		s.finish(250, s.arrive(200, 1, 2, 3, 4))
		s.want("E w0 4")
		s.remove(0)
		s.note(s.d.Drain(260, nil))
		s.arrive(300, 1, 2, 3, 4)
		s.want("no endpoints available to route work")
	})
}

// TestNoWorkersWhileHeld checks that a held request stays held until Drain if there is no worker left.
func TestNoWorkersWhileHeld(t *testing.T) {
	s := newStand(t, `{"router_queue_threshold":0}`, setup{Workers: 1})
	a := s.arrive(0, 1)
	s.arrive(1, 2)
	s.want("A w0 2")
	s.remove(0)
	s.note(s.d.Drain(2, nil))
	s.want()
	s.finish(3, a)
	s.want("no endpoints available to route work")
}
