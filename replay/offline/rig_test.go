package offline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/sim"
)

// trial is a small replay for any driver. trial can be run any number of times.
type trial struct {
	cfg   Config
	model timing.Model // nil: the models of the engines
}

// outcome is all results of a replay, for comparison.
type outcome struct {
	err      error
	report   *collector.Report // without real time
	records  []collector.Record
	calls    []call // calls of the routers; empty if the driver does not record them
	inFlight int    // requests that the workers hold at the end
}

// maker makes a driver for a prepared run. maker may record calls of routers in j.
type maker func(r *run, j *journal) (driver, error)

// run replays x with one driver.
func (x *trial) run(make maker) outcome {
	j := &journal{}
	r, drive, err := x.prepare(make, j)
	if err == nil {
		err = drive(context.Background())
	}
	out := outcome{err: err, calls: j.calls}
	if r != nil {
		for _, q := range r.Collector.Requests() {
			out.records = append(out.records, *q)
		}
		out.report = r.Collector.Report(0)
	}
	for _, c := range j.cores {
		out.inFlight += c.Load()
	}
	return out
}

// prepare prepares the run as prepareRun does, with a driver and a timing model of the test's choice.
func (x *trial) prepare(make maker, j *journal) (*run, driver, error) {
	cfg := x.cfg
	r, err := openRun(&cfg, false) // prompt trees are not joined, unlike in Run
	if err != nil {
		return nil, nil, err
	}
	if err := r.MakeStages(); err != nil {
		return nil, nil, err
	}
	if x.model != nil {
		for _, s := range r.Stages {
			s.Clock.Model = x.model
		}
	}
	if err := engines.CheckSizes(cfg.Workload, r.Stages); err != nil && !cfg.Reject {
		return nil, nil, err
	}
	drive, err := make(r, j)
	return r, drive, err
}

func bySingle(r *run, j *journal) (driver, error) {
	core, err := r.Stages[0].Core(0)
	j.cores = append(j.cores, core)
	return (&single{run: r, core: core}).runPasses, err
}

func byAlone(r *run, _ *journal) (driver, error) {
	return (&alone{run: r}).runWorkers, nil
}

func byCluster(r *run, j *journal) (driver, error) {
	c, err := newCluster(r)
	if err != nil {
		return nil, err
	}
	for i, p := range c.pools {
		p.Router = &listener{p.Router, i, j}
		for _, w := range p.workers {
			j.cores = append(j.cores, w.core)
		}
	}
	return c.runEvents, nil
}

// byPasses is the cluster without runs of passes: every pass is an event.
func byPasses(r *run, j *journal) (driver, error) {
	c, err := newCluster(r)
	if err != nil {
		return nil, err
	}
	for i, p := range c.pools {
		p.Router = &listener{p.Router, i, j}
		for _, w := range p.workers {
			j.cores = append(j.cores, w.core)
			w.core = onePass{w.core}
		}
	}
	return c.runEvents, nil
}

// onePass is a core that takes one pass per step.
type onePass struct{ scheduler.Core }

func (c onePass) Step(now, _ sim.Time, p *scheduler.Pass) error { return c.Core.Step(now, now, p) }

func (c onePass) Cut(*scheduler.Pass, int) { panic("cut: a single pass has nothing to cut") }

// journal is the calls of the routers with their answers, in order, and the cores behind the routers.
type journal struct {
	calls []call
	cores []scheduler.Core
}

// call is a call of a router, or a placement or cache change that belongs to the call before it.
type call struct {
	pool    int
	at      sim.Time
	what    string
	request sim.RequestID
	worker  sim.WorkerID
	overlap int32
	cost    float64
	node    scheduler.KVChange
	block   uint64
}

// listener records the calls of a router.
type listener struct {
	router.Router
	pool int
	j    *journal
}

func (l *listener) Route(now sim.Time, q *sim.Request, dst []router.Placement) ([]router.Placement, error) {
	placed, err := l.Router.Route(now, q, dst)
	return l.note(call{at: now, what: "route", request: q.ID}, placed, err)
}

func (l *listener) PrefillDone(now sim.Time, id sim.RequestID, dst []router.Placement) ([]router.Placement, error) {
	placed, err := l.Router.PrefillDone(now, id, dst)
	return l.note(call{at: now, what: "prefill done", request: id}, placed, err)
}

func (l *listener) Finished(now sim.Time, id sim.RequestID, dst []router.Placement) ([]router.Placement, error) {
	placed, err := l.Router.Finished(now, id, dst)
	return l.note(call{at: now, what: "finished", request: id}, placed, err)
}

func (l *listener) Drain(now sim.Time, dst []router.Placement) ([]router.Placement, error) {
	placed, err := l.Router.Drain(now, dst)
	return l.note(call{at: now, what: "drain"}, placed, err)
}

func (l *listener) Observe(w sim.WorkerID, p *scheduler.Pass) error {
	for _, change := range p.KV {
		l.add(call{at: p.Start, what: "cached", worker: w, node: change})
	}
	for _, e := range p.Events {
		for _, b := range e.Stored {
			l.add(call{at: p.Start, what: "stored", worker: w, block: b.Seq})
		}
		for _, seq := range e.Removed {
			l.add(call{at: p.Start, what: "removed", worker: w, block: seq})
		}
	}
	return l.Router.Observe(w, p)
}

func (l *listener) Metered() bool {
	d, ok := l.Router.(*router.Dispatcher)
	return ok && d.Metered()
}

func (l *listener) Measure(now sim.Time, w sim.WorkerID, m router.Metrics, dst []router.Placement) ([]router.Placement, error) {
	placed, err := l.Router.(*router.Dispatcher).Measure(now, w, m, dst)
	return l.note(call{at: now, what: "measured", worker: w}, placed, err)
}

func (l *listener) note(c call, placed []router.Placement, err error) ([]router.Placement, error) {
	l.add(c)
	for _, p := range placed {
		l.add(call{at: c.at, what: "placed", request: p.Request.ID, worker: p.Worker, overlap: p.Overlap, cost: p.Cost})
	}
	return placed, err
}

func (l *listener) add(c call) {
	c.pool = l.pool
	l.j.calls = append(l.j.calls, c)
}

// difference returns the first difference of two outcomes, "" if they are equal.
func difference(a, b outcome) string {
	for i := range min(len(a.calls), len(b.calls)) {
		if a.calls[i] != b.calls[i] {
			return fmt.Sprintf("call %d of the routers:\n  %+v\n  %+v", i, a.calls[i], b.calls[i])
		}
	}
	if len(a.calls) > 0 && len(b.calls) > 0 && len(a.calls) != len(b.calls) {
		return fmt.Sprintf("%d and %d calls of the routers", len(a.calls), len(b.calls))
	}
	if text := differentErrors(a.err, b.err); text != "" || a.err != nil {
		return text
	}
	if len(a.records) != len(b.records) {
		return fmt.Sprintf("%d and %d requests", len(a.records), len(b.records))
	}
	for i := range a.records {
		if a.records[i] != b.records[i] {
			return fmt.Sprintf("request %d:\n  %+v\n  %+v", i, a.records[i], b.records[i])
		}
	}
	if reflect.DeepEqual(a.report, b.report) {
		return ""
	}
	return differentLines(jsonOf(a.report), jsonOf(b.report))
}

func jsonOf(r *collector.Report) string {
	var text bytes.Buffer
	if err := r.WriteJSON(&text); err != nil {
		return err.Error()
	}
	return text.String()
}

func differentErrors(a, b error) string {
	var stallA, stallB *harness.StalledError
	if errors.As(a, &stallA) && errors.As(b, &stallB) && *stallA.Err == *stallB.Err && stallA.At == stallB.At {
		return ""
	}
	if fmt.Sprint(a) == fmt.Sprint(b) {
		return ""
	}
	return fmt.Sprintf("errors:\n  %v\n  %v", a, b)
}

func differentLines(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("report:\n  %s\n  %s", x[i], y[i])
		}
	}
	if len(x) != len(y) {
		return fmt.Sprintf("reports of %d and %d lines", len(x), len(y))
	}
	return ""
}

// broken returns the first inconsistency within an outcome, "" if it has none.
func (x *trial) broken(out outcome) string {
	if out.err != nil {
		return ""
	}
	if want := len(x.cfg.Workload.Turns); len(out.records) != want {
		return fmt.Sprintf("%d of %d requests arrived", len(out.records), want)
	}
	if out.inFlight != 0 {
		return fmt.Sprintf("the workers still hold %d requests", out.inFlight)
	}
	lengths := engines.NewLengths(&x.cfg.Topology)
	for i := range out.records {
		r := &out.records[i]
		if _, refused := lengths.Fit(int(r.InputTokens), int(r.OutputTokens)); refused != nil {
			if r.Tokens > 0 || r.Admitted() {
				return fmt.Sprintf("request %d is refused, and has %d tokens", i, r.Tokens)
			}
			continue
		}
		times := []sim.Time{r.Arrival, r.Admit, r.First}
		if r.Tokens >= 2 {
			times = append(times, r.Second)
		}
		times = append(times, r.Last)
		switch {
		case r.Tokens != r.OutputTokens:
			return fmt.Sprintf("request %d has %d of %d tokens", i, r.Tokens, r.OutputTokens)
		case !slices.IsSorted(times):
			return fmt.Sprintf("request %d: arrival, admission and tokens at %v", i, times)
		case r.Reused > r.InputTokens+r.OutputTokens:
			return fmt.Sprintf("request %d reuses %d of %d tokens", i, r.Reused, r.InputTokens)
		case r.Worker == collector.Nowhere, x.cfg.Disaggregated() != (r.PrefillWorker != collector.Nowhere):
			return fmt.Sprintf("request %d was on worker %d, its prefill on %d", i, r.Worker, r.PrefillWorker)
		}
	}
	return ""
}

// mooncake parses a trace.
func mooncake(t testing.TB, text string, traceBlock int) *loadgen.Workload {
	t.Helper()
	w, err := registry.Read(strings.NewReader(strings.TrimSpace(text)), "trace.jsonl", formats.Options{Format: formats.Mooncake, TraceBlock: traceBlock, Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// engine parses engine arguments.
func engine(t testing.TB, text string) engineargs.Args {
	t.Helper()
	a, err := engineargs.Parse([]byte(text), engineargs.Options{Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	return a
}
