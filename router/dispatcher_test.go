package router

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// TestFarthestInstant checks that every call rejects instants that the clock cannot represent, without a change of
// state.
func TestFarthestInstant(t *testing.T) {
	tree := prompt.NewTree(4, 4, prompt.Options{})
	d := New(Options{Policy: &weigher{Needs{Running: true, Tokens: true, Hold: &Hold{}}}, Workers: 1, Tree: tree})
	q := &sim.Request{ID: 0, InputTokens: 4, Prompt: tree.Add([]uint64{1}, 4)}
	if placed, err := d.Route(0, q, nil); err != nil || len(placed) != 1 {
		t.Fatalf("%v, %v", placed, err)
	}
	const never = sim.Time(1e30)
	for name, call := range map[string]func() error{
		"route":        func() error { _, err := d.Route(never, &sim.Request{ID: 1, InputTokens: 4}, nil); return err },
		"prefill done": func() error { _, err := d.PrefillDone(never, 0, nil); return err },
		"finished":     func() error { _, err := d.Finished(never, 0, nil); return err },
		"drain":        func() error { _, err := d.Drain(never, nil); return err },
	} {
		if call() == nil {
			t.Errorf("%s at %v ms was taken", name, never)
		}
	}
	if c := d.Loads(); c.Running[0] != 1 || c.Tokens[0] != 4 || d.Queued() != 0 {
		t.Errorf("%d running, %d tokens, %d held; want the one request as it was", c.Running[0], c.Tokens[0], d.Queued())
	}
}

// TestBlind checks that a dispatcher of a policy without needs keeps no facts, and accepts every call.
func TestBlind(t *testing.T) {
	d := New(Options{Policy: &weigher{}, Workers: 2})
	if c := d.Loads(); c.Running != nil || c.Tokens != nil || c.Blocks != nil {
		t.Errorf("%+v is kept", c)
	}
	for _, call := range []func() error{
		func() error { _, err := d.PrefillDone(0, 7, nil); return err },
		func() error { _, err := d.Finished(0, 7, nil); return err },
		func() error { _, err := d.Drain(0, nil); return err },
		func() error { return d.Observe(9, &scheduler.Pass{}) },
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	if d.Withdraw(7) || d.Queued() != 0 || len(d.Waiting(nil)) != 0 {
		t.Error("a request is held")
	}
	if got := d.Loads().Name(5); got != 5 {
		t.Errorf("worker 5 is called %d", got)
	}
}

func TestQueueOrders(t *testing.T) {
	for _, o := range []QueueOrder{FCFS, LCFS, WSPT, ByPriority, WFQ, EDF} {
		if got, err := ParseQueueOrder(o.String()); got != o || err != nil {
			t.Errorf("%v is read as %v, %v", o, got, err)
		}
	}
	if _, err := ParseQueueOrder("FCFS"); err == nil || err.Error() != `router_queue_policy is "FCFS", must be one of fcfs, lcfs, wspt, priority, wfq, edf` {
		t.Errorf("error %v", err)
	}
}
