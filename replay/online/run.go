package online

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// run is one replay in real time.
type run struct {
	cfg         *Config
	clock       *Clock
	tree        *prompt.Tree
	rec         *Recorder
	driver      *driver
	target      Target
	pools       []*pool // the entry first, then decode if there is one; none for a target elsewhere
	handoffs    *handoffs
	independent bool // no request waits for another to end

	mu      sync.Mutex
	entries []*entry // by request
	stats   Stats

	finished, cancelled int // the driver's, until it has returned
	failed              []Failure
}

// Run replays cfg.Workload on workers of this process. When ctx is done, or the
// deadline has passed, it stops everything and returns what there is. A request
// that ends with an error is in Result.Failed; the error is that of the first,
// or of a worker that cannot go on.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	x, err := prepare(&cfg)
	if err != nil {
		return nil, err
	}
	stages, err := newStages(&cfg, x.tree)
	if err != nil {
		return nil, err
	}
	if err := engines.CheckSizes(cfg.Workload, stages); err != nil {
		return nil, err
	}
	for i, s := range stages {
		p, err := newPool(x, s)
		if err != nil {
			return nil, err
		}
		p.visible = i == len(stages)-1
		x.pools = append(x.pools, p)
		if i > 0 {
			x.pools[i-1].next = p
		}
	}
	x.target = local{x}
	r, err := x.play(ctx)
	if err != nil {
		return r, err
	}
	if len(r.Failed) > 0 {
		f := &r.Failed[0]
		return r, fmt.Errorf("%s on worker %d: %w", f.Place, f.Worker, f.Err)
	}
	return r, nil
}

// Drive replays cfg.Workload through a target, which newTarget makes when the
// clock has started. Pools and router of cfg are not read.
func Drive(ctx context.Context, cfg Config, newTarget func(*Recorder, *Clock) (Target, error)) (*Result, error) {
	x, err := prepare(&cfg)
	if err != nil {
		return nil, err
	}
	if x.target, err = newTarget(x.rec, x.clock); err != nil {
		return nil, err
	}
	return x.play(ctx)
}

func prepare(cfg *Config) (*run, error) {
	cfg.Admission.Disaggregated = cfg.Disaggregated()
	block := cfg.Entry().Engine.BlockTokens
	traceBlock := cfg.Workload.TraceBlock
	if traceBlock == 0 {
		traceBlock = block
	}
	tree := prompt.NewTree(traceBlock, block, prompt.Options{Wrap: cfg.Compat})
	feed, err := loadgen.NewFeed(cfg.Workload, loadgen.Intern(cfg.Workload, tree), cfg.Admission)
	if err != nil {
		return nil, err
	}
	x := &run{cfg: cfg, tree: tree, clock: NewClock(), independent: feed.Independent()}
	x.rec = newRecorder(collector.New(len(cfg.Workload.Turns)), cfg.Observer)
	x.driver = &driver{run: x, feed: feed}
	return x, nil
}

// newStages is the pools of the topology, the entry first.
func newStages(cfg *Config, tree *prompt.Tree) ([]*engines.Stage, error) {
	if cfg.Raw != nil || cfg.Router.Info().Caches {
		tree.HashAll() // the workers share the tree, and name blocks in events by its hashes
	}
	return engines.NewStages(&cfg.Topology, engines.Use{
		Tree: tree, Requests: len(cfg.Workload.Turns), Events: cfg.Raw != nil,
	})
}

// play runs everything and takes it down again.
func (x *run) play(ctx context.Context) (*Result, error) {
	if x.cfg.Deadline > 0 {
		timed, stop := context.WithTimeoutCause(ctx, x.cfg.Deadline, ErrDeadline)
		defer stop()
		ctx = timed
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	x.clock.start = time.Now()
	x.driver.timer = NewTimer(x.clock, x.cfg.Precise)
	defer x.driver.timer.Close()
	x.handoffs = newHandoffs(x.clock, x.cfg.Precise)
	defer x.handoffs.timer.Close()

	demuxed := make(chan struct{})
	go func() { defer close(demuxed); x.demux() }()
	stop := x.startWorkers(end)

	err := x.driver.drive(ctx)
	cause := context.Cause(ctx)
	end(nil)
	x.driver.tasks.Wait()
	stop()
	x.rec.close()
	<-demuxed
	wall := time.Since(x.clock.start)
	for _, e := range x.driver.takeEnded() {
		err = errors.Join(err, x.driver.settle(e))
	}
	var broken *workerError
	if errors.As(cause, &broken) {
		return nil, broken.err
	}
	if err != nil {
		return nil, err
	}
	if cause != nil || len(x.failed) > 0 {
		x.unfinished()
	}
	return x.result(cause, wall), nil
}

// workerError is a worker that cannot go on.
type workerError struct{ err error }

func (e *workerError) Error() string { return e.err.Error() }

// startWorkers starts the workers' loops and returns what ends them. A worker
// that cannot go on ends the run.
func (x *run) startWorkers(end context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { x.handoffs.run(ctx) })
	for _, p := range x.pools {
		for _, w := range p.workers {
			all.Go(func() {
				if err := w.Run(ctx); err != nil {
					end(&workerError{x.failure(w, err)})
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

// failure puts place and time to why a worker cannot go on.
func (x *run) failure(w *worker, err error) error {
	var stall *scheduler.StallError
	if errors.As(err, &stall) {
		return fmt.Errorf("stalled at %v ms on worker %d: %s: %w", float64(x.clock.Now()), w.id, x.name(x.entry(stall.Request).q), stall)
	}
	return err
}

// local is the target of this process's workers.
type local struct{ run *run }

// Serve gives q to a worker and waits for its last token.
func (l local) Serve(ctx context.Context, q *sim.Request, placed func()) error {
	e := l.run.entry(q.ID)
	if err := l.run.pools[0].enter(q); err != nil {
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

// register makes a request one that can be found.
func (x *run) register(e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if int(e.q.ID) != len(x.entries) {
		panic(fmt.Sprintf("request %d arrives, want %d", e.q.ID, len(x.entries)))
	}
	x.entries = append(x.entries, e)
}

// entry finds a request; nil once it has ended.
func (x *run) entry(id sim.RequestID) *entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.entries[id]
}

func (x *run) count(add func(*Stats)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	add(&x.stats)
}

func (x *run) dispatched(w sim.WorkerID) {
	x.count(func(s *Stats) { s.Dispatched = append(s.Dispatched, w) })
}

// name is a request's place in the trace.
func (x *run) name(q *sim.Request) string { return x.cfg.Workload.Place(q.Session, q.Turn) }
