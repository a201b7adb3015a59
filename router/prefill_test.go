package router

import (
	"testing"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// predicted takes a tenth of a second per token.
type predicted struct{}

func (predicted) PrefillSeconds(batch, newTokens, prefix int) (float64, bool) {
	return float64(batch*newTokens) / 10, newTokens != 13
}

// The oldest outstanding prefill decays over its predicted time, the others
// wait (router.md 4).
func TestDecay(t *testing.T) {
	tree := prompt.NewTree(25, 25, prompt.Options{})
	s := newStand(t, `{"router_prefill_load_model":"aic","router_queue_threshold":null}`,
		Options{Workers: 1, Tree: tree, Estimator: predicted{}})
	tokens := func(seconds sim.Time, want int64) {
		t.Helper()
		snap, err := s.kv.Snapshot(seconds * 1000)
		if err != nil {
			t.Fatal(err)
		}
		if got := snap.ActiveTokens[0].Count; got != want {
			t.Errorf("%d tokens at %v s, want %d", got, seconds, want)
		}
	}
	blocks := func(want int64) {
		t.Helper()
		if got := s.kv.loads.blocks[0]; got != want {
			t.Errorf("%d active blocks, want %d", got, want)
		}
	}
	send := func(seconds sim.Time, tokens int, ids ...uint64) *sim.Request {
		q := &sim.Request{ID: sim.RequestID(len(s.sent)), InputTokens: tokens, Prompt: tree.Add(ids, 25*len(ids))}
		s.sent = append(s.sent, q)
		s.note(s.kv.Route(seconds*1000, q, nil))
		return q
	}
	a := send(0, 100, 1, 2, 3)
	tokens(0, 100)
	b := send(2, 60, 1, 2, 4)
	blocks(4)
	tokens(0, 160)
	tokens(2, 140)
	tokens(5, 110)
	tokens(20, 60)
	s.prefillDone(6000, a)
	tokens(6, 60)
	tokens(7, 50)
	s.finish(8000, a)
	blocks(3)
	tokens(8, 41) // 40.000000000000007 is rounded up
	s.finish(9000, b)
	blocks(0)
	tokens(9, 0)

	send(10, 13, 5) // no prediction: no decay
	tokens(1000, 13)
}

// Decay alone places nothing; the next call that drains sees it.
func TestDecayAndQueue(t *testing.T) {
	s := newStand(t, `{"router_prefill_load_model":"aic","router_queue_threshold":0.5}`,
		Options{Workers: 2, MaxBatchedTokens: 256, Estimator: predicted{}})
	a := s.arrive(0, 1, 2, 3, 4)
	s.arrive(0, 5, 6, 7, 8)
	s.arrive(0, 9)
	s.want("A w0 8", "B w1 8")
	s.arrive(20_000, 10) // 56 tokens are left on either worker: overtakes
	s.want("D w0 6.875")
	s.prefillDone(20_000, a)
	s.want("C w1 6.875")
}

// An estimator and the configuration that wants one come together.
func TestEstimatorWanted(t *testing.T) {
	tree := prompt.NewTree(64, 64, prompt.Options{})
	with := DefaultConfig()
	with.PrefillLoadModel = LoadAIC
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Config: with}, "router_prefill_load_model='aic' requires aic_perf_config"},
		{Options{Config: DefaultConfig(), Estimator: predicted{}}, "aic_perf_config requires router_prefill_load_model='aic'"},
		{Options{Config: with, Estimator: predicted{}}, ""},
		{Options{Config: with, Estimator: predicted{}, Stage: Prefill}, ""},
		{Options{Config: with, Estimator: predicted{}, Stage: Decode}, ""},
	} {
		c.o.Tree, c.o.Workers = tree, 1
		_, err := NewKV(c.o)
		if got := errText(err); got != c.want {
			t.Errorf("%v, estimator %v: error %q, want %q", c.o.Stage, c.o.Estimator, got, c.want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
