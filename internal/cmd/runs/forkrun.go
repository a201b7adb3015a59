package runs

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/sim"
)

// forkRun replays a past and its futures.
type forkRun struct {
	s       cli.Streams
	spec    *replay.Spec // settings of the past
	at      sim.Time
	jobs    int
	futures []futureRun
	table   *forkTable
	out     *forkOut // nil: no run directories
}

// futureRun is a future. The first future has no change.
type futureRun struct {
	index  int
	change engines.Change
	flags  []string    // flags with which a single replay makes the change
	spec   replay.Spec // settings of an equivalent single replay
	alone  bool        // the future does not share the past, and is replayed from the start
}

// replayAll replays the past, and then each future from a copy of it.
func (r *forkRun) replayAll(ctx context.Context) error {
	w, err := r.spec.Open(ctx, replay.Streams{Stdin: r.stdin(), Warn: r.s.Warn})
	if err != nil {
		return err
	}
	if r.out != nil {
		if err := r.out.takeWorkload(w); err != nil {
			return err
		}
	}
	seen, err := r.watch()
	if err != nil {
		return err
	}
	past, err := r.spec.ForkObserved(ctx, w, seen)
	if err != nil {
		return err
	}
	if err := past.AdvanceTo(ctx, r.at); err != nil {
		return err
	}
	if err := r.replayFutures(ctx, w, past); err != nil || r.out == nil {
		return err
	}
	return r.out.keep(ctx)
}

// replayFutures replays the futures in parallel.
func (r *forkRun) replayFutures(ctx context.Context, w *loadgen.Workload, past *offline.Fork) error {
	bar := cli.NewProgress(r.s.Err, "futures")
	defer bar.Clear()
	var wg sync.WaitGroup
	var ended atomic.Int64
	seats, errs := make(chan struct{}, r.jobs), make([]error, len(r.futures))
	for i := len(r.futures) - 1; i >= 0; i-- {
		seats <- struct{}{}
		own, f, err := past, &r.futures[i], ctx.Err()
		if i > 0 && err == nil { // the last future continues with the original
			if own, err = past.Copy(); err == nil {
				err = own.Change(f.change)
			}
		}
		if err != nil {
			errs[i] = err
			break
		}
		wg.Go(func() {
			if f.alone {
				errs[i] = r.replayAlone(ctx, w, f)
			} else {
				errs[i] = r.endFuture(ctx, own, f)
			}
			bar.Show(int(ended.Add(1)), len(r.futures))
			<-seats
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.Join(errs...)
}

// endFuture replays a future from a copy of the past to its end.
func (r *forkRun) endFuture(ctx context.Context, own *offline.Fork, f *futureRun) error {
	if r.out == nil {
		facts, err := own.End(ctx)
		if err == nil {
			r.fill(f, facts)
		}
		return err
	}
	result, err := own.Finish(ctx)
	if err != nil {
		return err
	}
	r.fill(f, result.Collector)
	return r.out.write(ctx, f, own.Observer().(*watched).recording, result)
}

// replayAlone replays a future from the start.
func (r *forkRun) replayAlone(ctx context.Context, w *loadgen.Workload, f *futureRun) error {
	seen, err := r.watch()
	if err != nil {
		return err
	}
	result, err := f.spec.RunOn(ctx, w, replay.Streams{Observer: seen})
	if err != nil {
		return err
	}
	r.fill(f, result.Collector)
	if r.out == nil {
		return nil
	}
	return r.out.write(ctx, f, seen.(*watched).recording, result)
}

// fill adds the result of a future to the table.
func (r *forkRun) fill(f *futureRun, facts *collector.Collector) {
	r.table.Futures[f.index].fill(facts.Records(), r.table.At)
}

// watch returns the observer that records a replay, or nil without run directories.
func (r *forkRun) watch() (harness.Observer, error) {
	if r.out == nil {
		return nil, nil
	}
	return r.out.watch()
}

// stdin returns the reader of a trace on standard input.
func (r *forkRun) stdin() io.Reader {
	if r.out != nil {
		return r.out.base.stdin
	}
	return r.s.In
}
