// Package online replays a workload in real time. Requests arrive at their instants of the wall clock. Each worker is
// a scheduler core in a separate loop that waits for the duration of each pass.
//
// A driver takes requests from the feed and starts a task for each. The task routes the request and waits for its
// end. Workers report the results of their passes. A single demux receives the results, owns the collector and
// notifies routers and tasks. Events planned for the same instant happen in the order of the logical clock
// (instants.go).
//
// Read run.go, driver.go, instants.go, demux.go, pool.go; then worker.go, which is also usable alone, and timer.go;
// result.go has the report.
package online

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Config is one replay in real time.
type Config struct {
	harness.Config

	Pace

	// Warn, if not nil, is called with errors that do not end the replay.
	Warn func(string)
	// Raw, if not nil, is called with all cache changes, worker by worker in order. The engines then capture events.
	// Raw is called from the goroutines of workers.
	Raw func(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass)

	hooks hooks
}

// Pace configures how a replay follows the real clock.
type Pace struct {
	// NoBarrier lets a worker begin its next pass before requests released by a completion have been placed, as in
	// the reference.
	NoBarrier bool
	// Precise polls the clock at the end of each sleep, which uses one processor per worker.
	Precise bool
	// Deadline ends the replay after this real time; 0: never.
	Deadline time.Duration
}

// hooks are callbacks for tests.
type hooks struct {
	task func(*sim.Request) // at the start of a request's task
	// looked is called between a read of the feed and the wait for the next event.
	looked  func()
	came    func(q *sim.Request, at sim.Time)                // called at the arrival of a request
	arrived func(q *sim.Request, scheduled, really sim.Time) // called when the demux records an arrival
	pass    func(w sim.WorkerID)                             // at the end of a pass, on the worker's goroutine
	alarm   func() alarm                                     // for the timers to sleep on
}

// ErrDeadline is the cause of the end of a replay by its deadline.
var ErrDeadline = errors.New("the deadline passed")

// Target serves requests. Target is the workers of this process, or a remote endpoint.
type Target interface {
	// Serve serves q and reports its events to the run's Recorder. Serve returns at the end of q, or when ctx is
	// done. Serve calls placed after q has been placed or queued.
	Serve(ctx context.Context, q *sim.Request, placed func()) error
}

// run is one replay in real time.
type run struct {
	*harness.Run
	cfg    *Config
	clock  *Clock
	rec    *Recorder
	driver *driver
	target Target
	pools  []*pool // none for a remote target

	instants  *instants
	unordered bool // the order of events follows only the clock

	mu      sync.Mutex
	entries []*entry // by request

	finished, cancelled int // written by the driver until it has returned
	failed              []harness.Failure
}

// Run replays cfg.Workload on workers of this process. If ctx is done or the deadline passes, Run stops and returns
// the result so far. A request that ends with an error is in Result.Failed. The returned error is that of the first
// such request, or of a worker that cannot continue.
func Run(ctx context.Context, cfg Config) (*harness.Result, error) {
	x, err := prepareRun(&cfg)
	if err != nil {
		return nil, err
	}
	if err := x.makePools(); err != nil {
		return nil, err
	}
	x.target = local{x}
	r, err := x.playWorkload(ctx)
	if err != nil {
		return r, err
	}
	if len(r.Failed) > 0 {
		f := &r.Failed[0]
		return r, fmt.Errorf("%s on worker %d: %w", f.Place, f.Worker, f.Err)
	}
	return r, nil
}

// Drive replays cfg.Workload on a target, which newTarget makes after the start of the clock. The pools and the
// router of cfg are ignored.
func Drive(ctx context.Context, cfg Config, newTarget func(*Recorder, *Clock) (Target, error)) (*harness.Result, error) {
	x, err := prepareRun(&cfg)
	if err != nil {
		return nil, err
	}
	if x.target, err = newTarget(x.rec, x.clock); err != nil {
		return nil, err
	}
	return x.playWorkload(ctx)
}

func prepareRun(cfg *Config) (*run, error) {
	h, err := harness.Open(&cfg.Config, engines.Use{Events: cfg.Raw != nil}, false)
	if err != nil {
		return nil, err
	}
	h.FirstOfOne = true
	x := &run{Run: h, cfg: cfg, clock: NewClock()}
	x.clock.newAlarm = cfg.hooks.alarm
	x.instants = new(instants)
	x.unordered = true
	x.rec = &Recorder{run: x, wake: make(chan struct{}, 1)}
	x.driver = &driver{run: x}
	return x, nil
}

// makePools makes the workers of this process.
func (x *run) makePools() error {
	if x.cfg.Raw != nil || x.FollowsCaches() {
		x.Use.Tree.HashAll() // workers share the tree, and events use its hashes as names of blocks
	}
	if err := x.MakeStages(); err != nil {
		return err
	}
	if err := engines.CheckSizes(x.Workload, x.Stages); err != nil {
		return err
	}
	pools, err := x.NewPools(x)
	if err != nil {
		return err
	}
	for _, h := range pools {
		p, err := x.newPool(h)
		if err != nil {
			return err
		}
		x.pools = append(x.pools, p)
	}
	x.unordered = x.cfg.NoBarrier
	return nil
}

// playWorkload starts all goroutines, runs the workload, and stops them.
func (x *run) playWorkload(ctx context.Context) (*harness.Result, error) {
	if x.cfg.Deadline > 0 {
		timed, stop := context.WithTimeoutCause(ctx, x.cfg.Deadline, ErrDeadline)
		defer stop()
		ctx = timed
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	x.clock.start = time.Now()
	x.driver.timer = newTimer(x.clock, x.cfg.Precise)
	defer x.driver.timer.Close()

	var demux sync.WaitGroup
	ended := make(chan struct{})
	demux.Go(func() { x.rec.deliverNews(ended) })
	stop := x.startWorkers(end)

	err := x.driver.sendArrivals(ctx)
	cause := context.Cause(ctx)
	end(nil)
	x.driver.tasks.Wait()
	stop()
	close(ended)
	demux.Wait()
	wall := time.Since(x.clock.start)
	for _, e := range x.driver.takeEnded(farOff) {
		err = errors.Join(err, x.driver.noteEnd(e))
	}
	var broken *workerError
	if errors.As(cause, &broken) {
		return nil, broken.err
	}
	if err != nil {
		return nil, err
	}
	if cause != nil || len(x.failed) > 0 {
		x.recordUnfinished()
	}
	return x.makeResult(cause, wall), nil
}

// workerError is the error of a worker that cannot continue.
type workerError struct{ err error }

func (e *workerError) Error() string { return e.err.Error() }

// startWorkers starts the workers' loops and returns a function that stops them. A worker that cannot continue ends
// the run.
func (x *run) startWorkers(end context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, p := range x.pools {
		for _, w := range p.workers {
			all.Go(func() {
				if err := w.Run(ctx); err != nil {
					end(&workerError{x.explainFailure(w, err)})
				}
			})
		}
	}
	return func() {
		cancel()
		all.Wait()
		for _, p := range x.pools {
			for _, w := range p.workers {
				w.Close()
			}
		}
	}
}

// explainFailure adds the worker, the time and the request to the error of a worker that cannot continue.
func (x *run) explainFailure(w *Worker, err error) error {
	var stall *scheduler.StallError
	if errors.As(err, &stall) {
		return fmt.Errorf("stalled at %v ms on worker %d: %s: %w", float64(x.clock.Now()), w.cfg.ID, x.Place(x.entryOf(stall.Request).q), stall)
	}
	return err
}

// local is the target with the workers of this process.
type local struct{ run *run }

// Serve places q on a worker and waits for its last token.
func (l local) Serve(ctx context.Context, q *sim.Request, placed func()) error {
	e := l.run.entryOf(q.ID)
	if err := l.run.pools[0].enterRequest(e.came, q); err != nil {
		return err
	}
	placed()
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// registerEntry adds an entry for entryOf.
func (x *run) registerEntry(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if int(e.q.ID) != len(x.entries) {
		panic(fmt.Sprintf("request %d arrives, must be %d", e.q.ID, len(x.entries)))
	}
	x.entries = append(x.entries, e)
}

// entryOf returns the entry of a request.
func (x *run) entryOf(id sim.RequestID) *entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entries[id]
}
