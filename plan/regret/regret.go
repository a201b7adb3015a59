// Package regret computes the results of other choices of a router. For a sample of the decisions of a replay, it
// tries each worker instead of the chosen worker, on copies of the replay that continue from the decision.
//
// Read regret.go, walk.go (the trials), affected.go (the compared requests), then study.go (the statistics), and
// text.go.
package regret

import (
	"context"
	"errors"
	"fmt"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Options are the options of a study.
type Options struct {
	Sample int // studied decisions, at least 1; all of them where there are fewer
	// Horizon, at least 0, is the time after a decision in which arriving requests are studied, too. Requests in flight
	// at the decision are also studied.
	Horizon sim.Time
	Cores   int // goroutines; the study does not depend on it
	// Progress, if not nil, is called by any goroutine with the number of choices tried so far.
	Progress func(done, total int)
}

// Check rejects replays in which a request cannot be given to another worker, or in which another choice would change
// further inputs.
func Check(s *replay.Spec) error {
	switch {
	case s.Mode != loadgen.Trace:
		return errors.New("in closed loop another choice changes the arrivals, requires replay trace")
	case s.Disaggregated():
		return errors.New("prefill and decode workers are chosen one after the other, expected one pool")
	case policy.Is[*policy.Process](s.Router):
		return errors.New("a program that is the policy cannot be copied with the replay, must be a policy of this program")
	case s.Faults != nil:
		return errors.New("a request may be placed several times with --faults, remove it")
	case s.Client != nil:
		return errors.New("a request may be placed several times with --client-timeout or --retry, remove them")
	case s.Admission != nil:
		return errors.New("with --admission another choice may reject other requests, must admit all")
	case s.Autoscales() || len(s.Scale) > 0:
		return errors.New("the number of workers must be constant: remove --autoscale and --scale")
	case len(s.Changes) > 0:
		return errors.New("with --change several policies make decisions, remove it")
	case s.Until > 0:
		return errors.New("with --until requests are left without their answer, expected the replay to its end")
	}
	return s.Validate()
}

// Decision is a routing decision with the result of each worker.
type Decision struct {
	Request  sim.RequestID
	Session  int32
	Turn     int32
	Line     int32 // of the trace; 0 if there is none
	At       sim.Time
	Chosen   sim.WorkerID
	Affected int       // number of requests in the means over all
	Outcomes []Outcome // by worker
}

// Outcome is the state of a worker at a decision, and the result of choosing it.
type Outcome struct {
	Running, Waiting int // requests on the worker that had begun, and that had not
	Cached           int // prompt tokens that the request finds cached when it begins

	TTFT, E2E       sim.Time // of the request
	AllTTFT, AllE2E sim.Time // means over all studied requests
}

// Find tries all workers at a sample of the routing decisions of a replay.
func Find(ctx context.Context, spec *replay.Spec, w *loadgen.Workload, o Options) (*Study, error) {
	if err := Check(spec); err != nil {
		return nil, err
	}
	seen := &decisions{}
	base, err := spec.RunOn(ctx, w, replay.Streams{Observer: seen})
	if err != nil {
		return nil, err
	}
	f := &finder{
		Study:  Study{Routed: len(seen.all), Workers: spec.Entry().Count, Horizon: o.Horizon},
		routed: seen.all, records: base.Collector.Records(), base: base.Collector,
	}
	for i := range f.records {
		f.end = max(f.end, f.records[i].Last)
	}
	f.chooseSample(o.Sample)
	f.findLines(w)
	f.tried.report, f.tried.total = o.Progress, len(f.Decisions)*f.Workers
	if f.Workers == 1 || len(f.Decisions) == 0 {
		f.takeRun()
		return &f.Study, nil
	}
	start, err := spec.Fork(ctx, w)
	if err != nil {
		return nil, err
	}
	return &f.Study, f.tryAll(ctx, start, o.Cores)
}

// tryAll tries all workers at the decisions of the sample. The cores divide the decisions. Each core moves a replay
// from one of its decisions to the next.
func (f *finder) tryAll(ctx context.Context, start *offline.Fork, cores int) error {
	n := len(f.Decisions)
	parts := min(max(cores, 1), n)
	walks := make([]*offline.Fork, parts)
	for i := range walks {
		var err error
		if walks[i], err = start.Copy(); err != nil {
			return err
		}
	}
	return plan.Each(ctx, parts, parts, func(ctx context.Context, i int) error {
		return f.walk(ctx, walks[i], i*n/parts, (i+1)*n/parts)
	})
}

// decisions is an observer that records routing decisions.
type decisions struct {
	harness.NoObserver
	all []decision
}

// decision is a routing decision in the run.
type decision struct {
	request sim.RequestID
	worker  sim.WorkerID
	at      sim.Time
}

func (d *decisions) Routed(_ scheduler.Role, at sim.Time, p *router.Placement) {
	d.all = append(d.all, decision{p.Request.ID, p.Worker, at})
}

// chooseSample spreads the sample evenly over the decisions of the run.
func (f *finder) chooseSample(want int) {
	total := len(f.routed)
	n := min(want, total)
	for i := range n {
		k := (2*i + 1) * total / (2 * n)
		x := f.routed[k]
		r := &f.records[x.request]
		f.Decisions = append(f.Decisions, Decision{
			Request: x.request, Session: r.Session, Turn: r.Turn, At: x.at, Chosen: x.worker, Outcomes: make([]Outcome, f.Workers),
		})
		f.places = append(f.places, k)
	}
}

// findLines finds the trace lines of the requests of the sample.
func (f *finder) findLines(w *loadgen.Workload) {
	sampled := make(map[key]*Decision, len(f.Decisions))
	for i := range f.Decisions {
		d := &f.Decisions[i]
		sampled[key{d.Session, d.Turn}] = d
	}
	for i := range w.Turns {
		t := &w.Turns[i]
		if d := sampled[key{t.Session, t.Index}]; d != nil {
			d.Line = t.Line
		}
	}
}

// takeRun copies the results of the chosen workers from the run.
func (f *finder) takeRun() {
	c := f.newAffected()
	for i := range f.Decisions {
		d := &f.Decisions[i]
		c.moveTo(d, f.places[i])
		c.fill(&d.Outcomes[d.Chosen], f.base, d)
		f.tried.count()
	}
}

// explainFailure returns the error of a copy that did not make the other choice.
func explainFailure(d *Decision, w sim.WorkerID, what string) error {
	return fmt.Errorf("request %d given to worker %d at %v ms: %s", d.Request, w, float64(d.At), what)
}

// finder is a study in progress.
type finder struct {
	Study
	routed  []decision // of the run, in order
	places  []int      // indexes of the sampled decisions in routed
	records []collector.Record
	base    *collector.Collector
	end     sim.Time // of the latest request
	tried   meter
}
