package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// Result is what a replay leaves.
type Result struct {
	Report    *collector.Report
	Collector *collector.Collector
	// Rejected are the requests turned away because no engine could run them.
	Rejected []Rejection
	// Partial says that the replay was ended while requests were left.
	Partial bool
}

// Rejection is a request that was turned away.
type Rejection struct {
	Request sim.RequestID
	Place   string // in the trace
	Err     error  // why it cannot run
}

// Run replays cfg.Workload to its end. It stops early, with ctx's error, when
// ctx is done.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	started := time.Now()
	r, stages, err := prepare(&cfg)
	if err != nil {
		return nil, err
	}
	drive, err := r.choose(stages)
	if err != nil {
		return nil, err
	}
	if err := drive(ctx); err != nil {
		return nil, err
	}
	return r.result(started), nil
}

// result derives the report of what has been collected.
func (r *run) result(started time.Time) *Result {
	if r.partial && r.cfg.Until > 0 { // a run that somebody steps through counts as the reference's does
		r.col.EndedEarly()
	}
	report := r.col.Report(0)
	report.SetWall(time.Since(started))
	if r.cfg.Reject {
		report.Extra = append(report.Extra, collector.Field{Key: "rejected_requests", Value: len(r.rejected)})
	}
	if r.partial {
		report.Extra = append(report.Extra, collector.Field{Key: "partial", Value: true})
	}
	if r.offloads() {
		report.Extra = append(report.Extra, collector.Field{Key: "host_cache_reused_ratio", Value: r.col.HostReusedRatio()})
	}
	return &Result{Report: report, Collector: r.col, Rejected: r.rejected, Partial: r.partial}
}

// run is what all drivers share.
type run struct {
	cfg  *Config
	feed loadgen.Feed
	col  *collector.Collector

	requests []*sim.Request // by id, that have arrived and not finished

	stages   []*stage
	rejected []Rejection
	partial  bool

	done  int // requests finished
	ticks int // calls of interrupted
}

// driver moves time until every request has finished.
type driver func(context.Context) error

// prepare builds everything for a replay but its driver.
func prepare(cfg *Config) (*run, []*stage, error) {
	if err := cfg.CheckScale(); err != nil {
		return nil, nil, err
	}
	cfg.Admission.Disaggregated = cfg.Disaggregated()
	entry := cfg.Entry()
	traceBlock := cfg.Workload.TraceBlock
	if traceBlock == 0 {
		traceBlock = entry.Engine.BlockTokens
	}
	use := cfg.use()
	use.Tree = prompt.NewTree(traceBlock, entry.Engine.BlockTokens, prompt.Options{
		Wrap: cfg.Compat, Joined: engines.Joined(&cfg.Topology, use),
	})
	feed, err := loadgen.NewFeed(cfg.Workload, loadgen.Intern(cfg.Workload, use.Tree), cfg.Admission)
	if err != nil {
		return nil, nil, err
	}
	turns := len(cfg.Workload.Turns)
	r := &run{cfg: cfg, feed: feed, col: collector.New(turns), requests: make([]*sim.Request, 0, turns)}
	stages, err := engines.NewStages(&cfg.Topology, use)
	if err != nil {
		return nil, nil, err
	}
	r.stages = stages
	if !cfg.Reject {
		if err := engines.CheckSizes(cfg.Workload, stages); err != nil {
			return nil, nil, err
		}
	}
	return r, stages, nil
}

// stage is a pool's place in the topology, with what its workers are made of.
type stage = engines.Stage

// use is what the run makes of the topology, but for the tree.
func (c *Config) use() engines.Use {
	return engines.Use{Requests: len(c.Workload.Turns), Steps: c.steps, Whole: c.Reject}
}

// choose is the driver for the topology, harness.md 2.1.
func (r *run) choose(stages []*stage) (driver, error) {
	entry := stages[0]
	one := entry.Count == 1 && entry.Engine.Engine == engineargs.VLLM
	route, err := entry.NewPolicy()
	if err != nil {
		return nil, err
	}
	needs := route.Needs()
	switch {
	case len(r.cfg.Scale) > 0:
	case len(stages) == 1 && one && needs.Hold == nil && !needs.Overlap:
		core, err := entry.Core(0)
		if err != nil {
			return nil, err
		}
		return (&single{run: r, core: core}).drive, nil
	case len(stages) == 1 && needs == router.Needs{} && r.feed.Independent():
		return (&alone{run: r, stage: entry}).drive, nil
	}
	c, err := newCluster(r, stages)
	if err != nil {
		return nil, err
	}
	if c.lazy() {
		return c.driveLazily, nil
	}
	return c.drive, nil
}

// arrived opens the books on a request. It reports false when the request was
// turned away; to whoever waits for it, it has finished.
func (r *run) arrived(a loadgen.Arrival) (ok bool, err error) {
	q := a.Request
	r.requests = append(r.requests, q)
	r.col.Arrive(q, a.At)
	if o := r.cfg.Observer; o != nil {
		o.Arrived(q, a.At)
	}
	if !r.cfg.Reject {
		return true, nil
	}
	reason := engines.Fits(r.stages, q.InputTokens, q.OutputTokens)
	if reason == nil {
		return true, nil
	}
	r.rejected = append(r.rejected, Rejection{Request: q.ID, Place: r.name(q.ID), Err: reason})
	return false, r.finished(q.ID, a.At)
}

// offloads says whether an engine has host memory behind its KV blocks.
func (r *run) offloads() bool {
	for _, s := range r.stages {
		if s.Offloads() {
			return true
		}
	}
	return false
}

// until is the first instant at which nothing begins any more.
func (r *run) until() sim.Time {
	if r.cfg.Until == 0 {
		return never
	}
	return sim.Time(math.Nextafter(float64(r.cfg.Until), math.Inf(1)))
}

// unfinished notes how far the requests on a core have come, when the replay is
// ended before they have.
func (r *run) unfinished(core scheduler.Core) {
	if p, ok := core.(scheduler.Progresser); ok {
		p.Progress(r.col.Progress)
	}
}

// finished notes that a request has ended.
func (r *run) finished(id sim.RequestID, now sim.Time) error {
	r.done++
	if err := r.feed.Finish(id, now); err != nil {
		return err
	}
	loadgen.Reclaim(r.feed, r.requests[id])
	r.requests[id] = nil
	return nil
}

// ticksPerCheck is how many steps pass between two looks at the context.
const ticksPerCheck = 256

// interrupted reports ctx's error, and progress, now and then.
func (r *run) interrupted(ctx context.Context) error {
	if r.ticks++; r.ticks%ticksPerCheck != 0 {
		return nil
	}
	if r.cfg.Progress != nil {
		r.cfg.Progress(r.done)
	}
	return ctx.Err()
}

// failed puts place and time to what a core says of a request.
func (r *run) failed(w sim.WorkerID, now sim.Time, err error) error {
	var stall *scheduler.StallError
	if errors.As(err, &stall) {
		return &StalledError{At: now, Worker: w, Request: r.name(stall.Request), Err: stall}
	}
	return fmt.Errorf("worker %d at %v ms: %w", w, float64(now), err)
}

// StalledError reports a replay in which nothing can go on.
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

// name is a request's place in the trace.
func (r *run) name(id sim.RequestID) string {
	q := &r.col.Records()[id]
	return r.cfg.Workload.Place(q.Session, q.Turn)
}
