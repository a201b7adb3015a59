package harness_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// scribe is the carrier and the router of pools, and the observer of their run. scribe records all calls.
type scribe struct {
	router.Router
	harness.NoObserver
	calls   []string
	refuses error // error of the router after a first token
}

func (s *scribe) note(format string, args ...any) {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *scribe) Route(_ sim.Time, q *sim.Request, dst []router.Placement) ([]router.Placement, error) {
	return append(dst, router.Placement{Request: q, Worker: 1}), nil
}

func (s *scribe) PrefillDone(_ sim.Time, id sim.RequestID, dst []router.Placement) ([]router.Placement, error) {
	s.note("prefilled %d", id)
	return dst, s.refuses
}

func (s *scribe) Finished(_ sim.Time, id sim.RequestID, dst []router.Placement) ([]router.Placement, error) {
	s.note("finished %d", id)
	return dst, nil
}

func (s *scribe) Submit(p *harness.Pool, _ sim.Time, placed *router.Placement, q *sim.Request) error {
	s.note("submit %d to %v worker %d, %d tokens to come", q.ID, p.Role, placed.Worker, q.OutputTokens)
	return nil
}

func (s *scribe) HandOver(_ *harness.Pool, id sim.RequestID, at, delay sim.Time) error {
	s.note("hand over %d at %g after %g", id, float64(at), float64(delay))
	return nil
}

func (s *scribe) Complete(id sim.RequestID, at sim.Time) error {
	s.note("complete %d at %g", id, float64(at))
	return nil
}

func (s *scribe) TurnAway(id sim.RequestID, at sim.Time) error {
	s.note("turn away %d at %g", id, float64(at))
	return nil
}

func (s *scribe) Refused(_ sim.RequestID, err error) error {
	s.note("refused: %v", err)
	return nil
}

func (s *scribe) Handoff(id sim.RequestID, from, to sim.Time) {
	s.note("see %d leave at %g, there at %g", id, float64(from), float64(to))
}

// open makes the pools of a run with one request.
func open(t *testing.T, s *scribe, pools []engines.Pool) (*harness.Run, []*harness.Pool) {
	t.Helper()
	w, err := loadgen.NewSynthetic(loadgen.Synthetic{Requests: 1, Input: 100, Output: 3, Turns: 1, Block: 64})
	if err != nil {
		t.Fatal(err)
	}
	r, err := harness.Open(&harness.Config{
		Topology: engines.Topology{Pools: pools}, Workload: w, Observer: s,
		Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: 1},
	}, engines.Use{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.MakeStages(); err != nil {
		t.Fatal(err)
	}
	all, err := r.NewPools(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		p.Router = s
	}
	return r, all
}

func (s *scribe) expect(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(s.calls, "; "); got != want {
		t.Errorf("calls: %s\n want: %s", got, want)
	}
	s.calls = nil
}

func twoPools() []engines.Pool {
	p := engines.Pool{Engine: engineargs.Default(), Count: 2}
	return engines.TwoPools(p, p)
}

// TestEnter checks that a request for a prefill worker ends with the first token.
func TestEnter(t *testing.T) {
	s := &scribe{}
	r, pools := open(t, s, twoPools())
	q := r.Feed.Take(0, 0, nil)[0].Request
	for _, p := range pools {
		if err := p.Enter(0, q); err != nil {
			t.Fatal(err)
		}
	}
	s.expect(t, "submit 0 to prefill worker 1, 1 tokens to come; submit 0 to decode worker 1, 3 tokens to come")
	if q.OutputTokens != 3 {
		t.Errorf("the request itself has %d tokens to come, want 3", q.OutputTokens)
	}
}

// TestMark checks the calls after each kind of token.
func TestMark(t *testing.T) {
	first, last := scheduler.Mark{First: true}, scheduler.Mark{Last: true, Handoff: 2}
	only := scheduler.Mark{First: true, Last: true}
	for _, c := range []struct {
		name       string
		pools      []engines.Pool
		pool       int
		firstOfOne bool
		mark       scheduler.Mark
		want       string
	}{
		{"first", engines.OnePool(engineargs.Default(), 2), 0, false, first, "prefilled 0"},
		{"last", engines.OnePool(engineargs.Default(), 2), 0, false, last, "finished 0; complete 0 at 7"},
		{"only", engines.OnePool(engineargs.Default(), 2), 0, false, only, "finished 0; complete 0 at 7"},
		{"only, in real time", engines.OnePool(engineargs.Default(), 2), 0, true, only, "prefilled 0; finished 0; complete 0 at 7"},
		{"first of prefill", twoPools(), 0, true, first, ""},
		{"last of prefill", twoPools(), 0, false, last, "prefilled 0; finished 0; see 0 leave at 7, there at 9; hand over 0 at 7 after 2"},
		{"first of decode", twoPools(), 1, true, first, ""},
		{"last of decode", twoPools(), 1, true, last, "finished 0; complete 0 at 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &scribe{}
			r, pools := open(t, s, c.pools)
			r.FirstOfOne = c.firstOfOne
			if err := pools[c.pool].Mark(8, 7, &c.mark); err != nil {
				t.Fatal(err)
			}
			s.expect(t, c.want)
		})
	}
}

// TestRefused checks that the carrier receives the router's error, and that the request still ends.
func TestRefused(t *testing.T) {
	s := &scribe{refuses: errors.New("who is that?")}
	r, pools := open(t, s, engines.OnePool(engineargs.Default(), 2))
	r.FirstOfOne = true
	if err := pools[0].Mark(8, 7, &scheduler.Mark{First: true, Last: true}); err != nil {
		t.Fatal(err)
	}
	s.expect(t, "prefilled 0; refused: who is that?; finished 0; complete 0 at 7")
}

// TestRecords checks that the placements and passes of a prefill worker are recorded separately from those of
// answers.
func TestRecords(t *testing.T) {
	s := &scribe{}
	r, _ := open(t, s, twoPools())
	q := r.Feed.Take(0, 0, nil)[0].Request
	r.Arrive(q, 0)
	r.Routed(scheduler.Prefill, 0, &router.Placement{Request: q, Worker: 1})
	r.Routed(scheduler.Decode, 5, &router.Placement{Request: q, Worker: 0})
	r.Collector.Admit(0, []scheduler.Admission{{Request: q.ID}})
	pass := &scheduler.Pass{Start: 0, End: 5, Count: 1, Marks: []scheduler.Mark{{Request: q.ID, First: true, Tokens: 1}}}
	r.Passed(scheduler.Prefill, 1, pass)
	rec := r.Collector.Records()[0]
	if rec.PrefillWorker != 1 || rec.Worker != 0 || rec.Tokens != 0 {
		t.Errorf("record %+v, want prefill worker 1, worker 0 and no token", rec)
	}
	r.Passed(scheduler.Decode, 0, pass)
	if rec := r.Collector.Records()[0]; rec.Tokens != 1 || rec.First != 5 {
		t.Errorf("record %+v, want a first token at 5 ms", rec)
	}
	err := r.Failed(1, 6, &scheduler.StallError{Request: q.ID, Reason: "no block"})
	if want := "stalled at 6 ms on worker 1: session_0 turn 0: no block"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := r.Failed(1, 6, errors.New("broken")); err == nil || err.Error() != "worker 1 at 6 ms: broken" {
		t.Errorf("%v", err)
	}
}
