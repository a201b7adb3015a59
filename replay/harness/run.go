// Package harness has the parts of a replay on either clock: the pools of workers, the path of requests through them,
// the observers, and the results. A driver moves time: offline on a logical clock, online in real time.
//
// Read run.go, pool.go, then observer.go.
package harness

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/replay-llm/replay/internal/sliding"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/caches"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/custom"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Config is what a replay on any clock depends on.
type Config struct {
	engines.Topology
	Workload  *loadgen.Workload
	Admission loadgen.Admission
	// Window is the part of the replay that the report is about; the zero value is all of it.
	Window collector.Window

	// Progress, when not nil, is called now and then with the number of requests
	// that have finished.
	Progress func(finished int)
	// Stop, when not nil, is called after each step with the requests so far. Its error ends the replay.
	Stop func(c *collector.Collector, finished int) error
	// Observer, when not nil, is shown everything that happens, from one
	// goroutine.
	Observer Observer
	// KVEvents lets the engines fill Pass.Events.
	KVEvents bool
	// Engine, when not nil, makes the engine of each worker, instead of that of its arguments.
	Engine func(custom.Options) (custom.Engine, error)
	// Warm is what the caches of workers begin with; nil: they are empty.
	Warm *caches.File
	// Save keeps the caches of workers; nil: they are not kept.
	Save *SaveCaches
	// Once reports that the workload is not replayed again, so that its hash ids may be gone once they are interned.
	Once bool
	// Fold has the collector fold requests that are over; nil: it keeps them all.
	Fold *collector.Folding
	// PromptsLater has another goroutine make the tree of prompts, until WaitPrompts. No caches are kept or begun with then.
	PromptsLater bool
}

// Streamed reports whether the requests of the workload are not kept.
func (c *Config) Streamed() bool { return c.Workload.Source != nil }

// Run is one replay, on either clock.
type Run struct {
	*Config
	Use       engines.Use
	Feed      *loadgen.Feed
	Collector *collector.Collector
	Stages    []*engines.Stage            // the entry first
	Requests  sliding.Table[*sim.Request] // by id, that have arrived and are not over
	// FirstOfOne lets routers hear of a first token that is the last one too, as
	// those of the reference do in real time.
	FirstOfOne bool
	// LinkShare is the share of their bandwidth that transfers from prefill to decode have
	// which begin now; 0: all of it.
	LinkShare float64

	entrance   entrance
	lengths    engines.Lengths
	rejections rejections
	warming    *warming // nil: caches begin empty
	interning  *interning
	// sizes are the checks of requests that are not known beforehand, by pool; nil if they are.
	sizes []func(input, output int) *scheduler.OversizeError
}

// Open makes a run: the workload's prompts, the feed and an empty collector.
// The usage is completed by the prompts, in a tree that is joined where the
// engines allow it and join is set.
func Open(c *Config, use engines.Use, join bool) (*Run, error) {
	if n := len(c.Workload.Turns); n > math.MaxInt32 {
		return nil, fmt.Errorf("the workload has %d requests, must have at most %d", n, math.MaxInt32) // a RequestID has no more
	}
	c.Admission.Disaggregated = c.Disaggregated()
	use.Events = use.Events || c.KVEvents
	use.Custom = c.Engine
	block := c.Entry().Engine.BlockTokens
	traceBlock := c.Workload.TraceBlock
	if traceBlock == 0 {
		traceBlock = block
	}
	if err := c.checkCaches(traceBlock, block); err != nil {
		return nil, err
	}
	use.Requests, use.Classes = len(c.Workload.Turns), classTerms(c.Workload)
	r := &Run{Config: c, Use: use, lengths: engines.NewLengths(&c.Topology), entrance: entrance{time: c.FrontEndTime()}}
	if err := r.openFeed(traceBlock, block, join && engines.Joined(&c.Topology, use)); err != nil {
		return nil, err
	}
	facts, err := c.newCollector(use.Requests)
	if err != nil {
		return nil, err
	}
	facts.Within(c.Window)
	if c.PreemptedApart {
		facts.CountPreemptedApart()
	}
	r.Collector = facts
	return r, nil
}

// openFeed makes the tree of prompts, joined if it may be, and the feed.
func (r *Run) openFeed(traceBlock, block int, joined bool) (err error) {
	if r.Streamed() {
		if what := engines.KeepsPrompts(&r.Topology, r.Use); what != "" {
			return r.refuseStream(what)
		}
		if traceBlock%block != 0 {
			return r.refuseStream(fmt.Sprintf("KV blocks of %d tokens, which do not divide a hash id's %d", block, traceBlock))
		}
		r.Use.Tree = prompt.NewForgetful(traceBlock, block, prompt.Options{Wrap: r.Compat})
		r.Feed, err = loadgen.NewStreamedFeed(r.Workload, r.Use.Tree, r.Admission)
		return err
	}
	r.Use.Tree = prompt.NewTree(traceBlock, block, prompt.Options{Wrap: r.Compat, Joined: joined})
	if !r.PromptsLater {
		r.Feed, err = loadgen.NewFeed(r.Workload, r.intern(r.Use.Tree), r.Admission)
		return err
	}
	if r.Feed, err = loadgen.NewFeed(r.Workload, nil, r.Admission); err == nil {
		r.interning = r.internLater()
	}
	return err
}

// refuseStream returns the error of a replay that needs what is not kept.
func (r *Run) refuseStream(what string) error {
	return fmt.Errorf("%s is not kept, which does not go with %s", r.Workload.Name, what)
}

// CheckSize refuses a request that has come and that no idle engine can run, where requests are not known beforehand.
func (r *Run) CheckSize(q *sim.Request) error {
	for _, check := range r.sizes {
		if err := check(q.InputTokens, q.OutputTokens); err != nil {
			return &engines.OversizeError{Count: 1, First: r.Place(q), Err: err, Blocks: err.Blocks}
		}
	}
	return nil
}

// newCollector returns a collector of n requests, if they are kept.
func (c *Config) newCollector(requests int) (*collector.Collector, error) {
	if c.Fold != nil {
		return collector.NewFolding(*c.Fold)
	}
	return collector.New(requests), nil
}

// classTerms returns the facts of classes for routers; nil if the workload has none.
func classTerms(w *loadgen.Workload) []router.ClassTerms {
	if w.Classes == nil {
		return nil
	}
	terms := make([]router.ClassTerms, len(w.Classes))
	for i, rule := range w.Rules {
		terms[i] = router.ClassTerms{Weight: rule.Weight, Deadline: rule.Deadline}
	}
	for i, name := range w.Classes {
		terms[i].Name = name
	}
	return terms
}

// MakeStages prepares the engines of the pools.
func (r *Run) MakeStages() (err error) {
	r.Stages, err = engines.NewStages(&r.Topology, r.Use)
	if err == nil && r.Streamed() {
		r.sizes = engines.SizeChecks(r.Stages)
	}
	return err
}

// FitLength ends the answer of a request, before it arrives, where its sequence is as long as the engines
// take. It returns why they refuse the prompt; nil when they do not.
func (r *Run) FitLength(q *sim.Request) *Rejection {
	output, refused := r.lengths.Fit(q.InputTokens, q.OutputTokens)
	if refused != nil {
		return &Rejection{Request: q.ID, Place: r.Place(q), Reason: refused.Key, Err: refused}
	}
	q.OutputTokens, q.Cut = output, q.OutputTokens-output
	return nil
}

// Arrive opens the books on a request.
func (r *Run) Arrive(q *sim.Request, at sim.Time) {
	r.Requests.Set(int(q.ID), q)
	r.Collector.Arrive(q, at)
	if r.Observer != nil {
		r.Observer.Arrived(q, at)
	}
}

// Routed notes where a request goes.
func (r *Run) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	if stage == scheduler.Prefill {
		r.Collector.PlacePrefill(p.Request.ID, p.Worker)
	} else {
		r.Collector.Place(p.Request.ID, p.Worker)
	}
	if r.Observer != nil {
		r.Observer.Routed(stage, at, p)
	}
}

// Passed notes a pass that is over. The tokens of a prefill worker are not
// answer, so that only its observer learns of them.
func (r *Run) Passed(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	if stage != scheduler.Prefill {
		r.Collector.Pass(p)
	}
	if r.Observer != nil {
		r.Observer.Pass(stage, w, p)
	}
}

// Place returns where in the trace a request stands.
func (r *Run) Place(q *sim.Request) string {
	if r.Streamed() {
		return fmt.Sprintf("%s:%d", r.Workload.Name, q.Line)
	}
	return r.Workload.Place(q.Session, q.Turn)
}

// Failed puts place and time to the error of a core.
func (r *Run) Failed(w sim.WorkerID, now sim.Time, err error) error {
	var stall *scheduler.StallError
	if errors.As(err, &stall) {
		return &StalledError{At: now, Worker: w, Request: r.Place(r.Requests.Get(int(stall.Request))), Err: stall}
	}
	var plan *custom.PlanError
	if errors.As(err, &plan) && plan.Request >= 0 {
		if q := r.Requests.Get(int(plan.Request)); q != nil {
			return fmt.Errorf("worker %d at %v ms: %s: %w", w, float64(now), r.Place(q), err)
		}
	}
	return fmt.Errorf("worker %d at %v ms: %w", w, float64(now), err)
}

// StalledError reports a replay in which nothing can continue.
type StalledError struct {
	At      sim.Time
	Worker  sim.WorkerID
	Request string // its place in the trace
	Err     *scheduler.StallError
}

func (e *StalledError) Error() string {
	return fmt.Sprintf("stalled at %v ms on worker %d: %s: %s", float64(e.At), e.Worker, e.Request, e.Err.Reason)
}

func (e *StalledError) Unwrap() error { return e.Err }

// Result is what a replay leaves.
type Result struct {
	Report    *collector.Report
	Collector *collector.Collector
	// Partial reports whether the replay was ended while requests were left.
	Partial bool
	// RanOut reports whether all sessions of the workload had begun by the end.
	RanOut bool
	// Rejected are the requests turned away because no engine could run them; of a workload that is not
	// kept, the first of them.
	Rejected []Rejection
	Reasons  []Reason // how many there are of them, by reason
	// Incidents are what went wrong, in order of time.
	Incidents []Incident
	// Facts are the facts that router policies in programs read, by name.
	Facts []string
	// Scaling is the acts of autoscalers, by pool; pools without one are omitted.
	Scaling []*Scaling
	// Warm is what the caches of workers began with; nil if they were empty.
	Warm *WarmStart
	// Caches are those of the workers, where they were to be kept.
	Caches *caches.File

	// The rest is of replays in real time.

	// Cause is why the replay ended early; nil if it came to its end.
	Cause error
	// Cancelled is the number of requests that had arrived and were not done when
	// the replay ended.
	Cancelled int
	Failed    []Failure // the requests that ended with an error
}

// Rejection is a request that was turned away.
type Rejection struct {
	Request sim.RequestID
	Place   string // in the trace
	Reason  string // max_model_len, context_length, unfit (no idle engine can run it), or out_of_memory: its engine has aborted it
	Gained  int    // tokens of one that was aborted, on its latest worker
	Err     error  // why it cannot run
}

// Failure is a request that ended with an error.
type Failure struct {
	Request sim.RequestID
	Place   string // in the trace
	Worker  sim.WorkerID
	Err     error
}

// Report derives the report of what has been collected, with the real time that
// the replay took.
func (r *Run) Report(wall time.Duration, extra ...collector.Field) *collector.Report {
	report := r.Collector.Report(0)
	report.SetWall(wall)
	report.Add(extra...)
	for _, k := range r.Workload.CountDropped().Kinds() {
		report.Add(collector.Of(k.Key, k.Rows))
	}
	return report
}
