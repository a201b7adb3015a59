// Package harness has the parts of a replay on either clock: the pools of workers, the path of requests through them,
// the observers, and the results. A driver advances the clock: package offline a logical clock, package online the
// real clock.
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

// Config is the configuration of a replay on either clock.
type Config struct {
	engines.Topology
	Workload  *loadgen.Workload
	Admission loadgen.Admission
	// Window is the part of the replay for the report; the zero value is the whole replay.
	Window collector.Window

	// Progress, if not nil, is called from time to time with the number of requests that have finished.
	Progress func(finished int)
	// Stop, if not nil, is called after each step with the requests so far. An error of Stop ends the replay.
	Stop func(c *collector.Collector, finished int) error
	// Observer, if not nil, receives all events, from one goroutine.
	Observer Observer
	// KVEvents lets the engines fill Pass.Events.
	KVEvents bool
	// Engine, if not nil, makes the engine of each worker. Engine replaces the engine of the worker's arguments.
	Engine func(custom.Options) (custom.Engine, error)
	// Warm is the initial caches of workers; nil: empty.
	Warm *caches.File
	// Save configures saving the caches of workers; nil: not saved.
	Save *SaveCaches
	// Once reports that the workload is replayed once, so that its hash ids may be freed after they are interned.
	Once bool
	// Fold makes the collector fold ended requests; nil: all records are kept.
	Fold *collector.Folding
	// PromptsLater makes another goroutine build the tree of prompts, until WaitPrompts. PromptsLater is not
	// supported with initial or saved caches.
	PromptsLater bool
}

// Streamed reports whether the workload is read during the replay and not kept.
func (c *Config) Streamed() bool { return c.Workload.Source != nil }

// Run is the state of one replay on either clock.
type Run struct {
	*Config
	Use       engines.Use
	Feed      *loadgen.Feed
	Collector *collector.Collector
	Stages    []*engines.Stage            // the entry stage first
	Requests  sliding.Table[*sim.Request] // by id; arrived requests that have not ended
	// FirstOfOne reports to routers a first token that is also the last token. The reference reports these tokens in
	// real time only.
	FirstOfOne bool
	// LinkShare is the share of bandwidth for transfers from prefill to decode that begin now; 0: all of it.
	LinkShare float64

	entrance   entrance
	lengths    engines.Lengths
	rejections rejections
	warming    *warming // nil: initial caches are empty
	interning  *interning
	// sizes are the size checks by pool for requests that are not known in advance; nil if all are known.
	sizes []func(input, output int) *scheduler.OversizeError
}

// Open opens a run: the workload's prompts, the feed and an empty collector. Open adds the prompts to the given use.
// The tree of prompts is joined if join is set and the engines allow it.
func Open(c *Config, use engines.Use, join bool) (*Run, error) {
	if n := len(c.Workload.Turns); n > math.MaxInt32 {
		// The maximum of a RequestID is the limit.
		return nil, fmt.Errorf("the workload has %d requests, must have at most %d", n, math.MaxInt32)
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

// openFeed opens the feed and the tree of prompts, which is joined if joined is set.
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
	if joined && r.Warm == nil && r.Save == nil {
		if tree, prompts := r.Workload.SharedTree(traceBlock, block, r.Compat); tree != nil {
			r.Use.Tree = tree
			r.Feed, err = loadgen.NewFeed(r.Workload, prompts, r.Admission)
			return err
		}
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

// refuseStream returns the error of a replay that requires a kept trace.
func (r *Run) refuseStream(what string) error {
	return fmt.Errorf("%s is not kept, which does not go with %s", r.Workload.Name, what)
}

// CheckSize returns an error for an arriving request that does not fit on an idle engine. CheckSize checks only
// requests that are not known in advance.
func (r *Run) CheckSize(q *sim.Request) error {
	for _, check := range r.sizes {
		if err := check(q.InputTokens, q.OutputTokens); err != nil {
			return &engines.OversizeError{Count: 1, First: r.Place(q), Err: err, Blocks: err.Blocks}
		}
	}
	return nil
}

// newCollector returns a collector for the given number of requests, or a folding one.
func (c *Config) newCollector(requests int) (*collector.Collector, error) {
	if c.Fold != nil {
		return collector.NewFolding(*c.Fold)
	}
	return collector.New(requests), nil
}

// classTerms returns the weights and deadlines of classes for routers, nil if the workload has no classes.
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

// MakeStages makes the stages of the pools.
func (r *Run) MakeStages() (err error) {
	r.Stages, err = engines.NewStages(&r.Topology, r.Use)
	if err == nil && r.Streamed() {
		r.sizes = engines.SizeChecks(r.Stages)
	}
	return err
}

// FitLength limits the answer of a request to the maximum sequence length of the engines, before its arrival. If the
// engines reject the prompt, FitLength returns the rejection.
func (r *Run) FitLength(q *sim.Request) *Rejection {
	output, refused := r.lengths.Fit(q.InputTokens, q.OutputTokens)
	if refused != nil {
		return &Rejection{Request: q.ID, Place: r.Place(q), Reason: refused.Key, Err: refused}
	}
	q.OutputTokens, q.Cut = output, q.OutputTokens-output
	return nil
}

// Arrive opens the record of a request.
func (r *Run) Arrive(q *sim.Request, at sim.Time) {
	r.Requests.Set(int(q.ID), q)
	r.Collector.Arrive(q, at)
	if r.Observer != nil {
		r.Observer.Arrived(q, at)
	}
}

// Routed records the placement of a request.
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

// Passed records an ended pass. The tokens of prefill workers are not answers, so only the observer receives these
// passes.
func (r *Run) Passed(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	if stage != scheduler.Prefill {
		r.Collector.Pass(p)
	}
	if r.Observer != nil {
		r.Observer.Pass(stage, w, p)
	}
}

// Place returns the position of a request in the trace.
func (r *Run) Place(q *sim.Request) string {
	if r.Streamed() {
		return fmt.Sprintf("%s:%d", r.Workload.Name, q.Line)
	}
	return r.Workload.Place(q.Session, q.Turn)
}

// Failed adds the worker, the time and the request to the error of a core.
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

// StalledError reports that a replay cannot continue.
type StalledError struct {
	At      sim.Time
	Worker  sim.WorkerID
	Request string // position of the request in the trace
	Err     *scheduler.StallError
}

func (e *StalledError) Error() string {
	return fmt.Sprintf("stalled at %v ms on worker %d: %s: %s", float64(e.At), e.Worker, e.Request, e.Err.Reason)
}

func (e *StalledError) Unwrap() error { return e.Err }

// Result is the result of a replay.
type Result struct {
	Report    *collector.Report
	Collector *collector.Collector
	// Partial reports whether the replay ended before all requests.
	Partial bool
	// RanOut reports whether all sessions of the workload had started by the end.
	RanOut bool
	// Rejected are the requests that were rejected because no engine could run them. A streamed replay keeps only the
	// first rejected request.
	Rejected []Rejection
	Reasons  []Reason // number of rejected requests by reason
	// Incidents are the incidents of the replay, in order of time.
	Incidents []Incident
	// Facts are the facts that router policies in programs read, by name.
	Facts []string
	// Scaling is the acts of autoscalers, by pool. Pools without an autoscaler are omitted.
	Scaling []*Scaling
	// Warm is a summary of the initial caches; nil if they were empty.
	Warm *WarmStart
	// Caches are the saved caches of the workers, nil if they were not saved.
	Caches *caches.File

	// The following fields are for replays in real time.

	// Cause is the reason of an early end; nil if the replay ran to its end.
	Cause error
	// Cancelled is the number of requests that had arrived and had not ended at the end of the replay.
	Cancelled int
	Failed    []Failure // requests that ended with an error
}

// Rejection is a rejected request.
type Rejection struct {
	Request sim.RequestID
	Place   string // position in the trace
	// Reason is max_model_len, context_length, unfit (does not fit on an idle engine) or out_of_memory (aborted by its engine)
	Reason string
	Gained int   // tokens of an aborted request on its latest worker
	Err    error // the reason as an error
}

// Failure is a request that ended with an error.
type Failure struct {
	Request sim.RequestID
	Place   string // position in the trace
	Worker  sim.WorkerID
	Err     error
}

// Report derives the report from the collected records. wall is the real time of the replay.
func (r *Run) Report(wall time.Duration, extra ...collector.Field) *collector.Report {
	report := r.Collector.Report(0)
	report.SetWall(wall)
	report.Add(extra...)
	for _, k := range r.Workload.CountDropped().Kinds() {
		report.Add(collector.Of(k.Key, k.Rows))
	}
	return report
}
