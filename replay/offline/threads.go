package offline

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// abort is a request that the engine of a worker has aborted.
type abort struct {
	worker sim.WorkerID
	at     sim.Time
	of     scheduler.Abort
}

// countThreads returns how many workers are replayed at once. Observers are shown one worker after the other; caches
// are filled and kept, Stop asked, and engines of programs made, one after the other too.
func (c *Config) countThreads() int {
	if c.Observer != nil || c.Stop != nil || c.Warm != nil || c.Save != nil || c.Fold != nil || c.Engine != nil || c.Streamed() {
		return 1
	}
	return max(1, min(c.Threads, c.Pools[0].Count))
}

// runAtOnce replays workers on n goroutines, each of which notes into a part of the collector. The result does not
// depend on n, and the error is that of the first worker with an error.
//
// Requests that arrive one after the other lie next to each other in memory, and round robin places them on neighbouring
// workers. Each goroutine begins with a range of workers and ends with the rest of other ranges, so that cores
// do not wait for the same cache lines. For the same reason a goroutine allocates what it writes to.
func (a *alone) runAtOnce(ctx context.Context, queues [][]harness.Entering, n int) error {
	a.WaitPrompts()
	shown := shownCount{show: a.Progress}
	lanes, errs := make([]*alone, n), make([]error, len(queues))
	next := make([]atomic.Int64, n) // of each range of workers
	var first atomic.Int64          // the first worker that has failed
	first.Store(int64(len(queues)))
	var all sync.WaitGroup
	var broken atomic.Pointer[any]
	for i := range lanes {
		all.Go(func() {
			defer func() {
				if value := recover(); value != nil {
					broken.Store(&value)
				}
			}()
			l := &alone{run: a.forkRun(&shown), aborts: new([]abort)}
			lanes[i] = l
			for k := range n {
				part := (i + k) % n
				from, to := part*len(queues)/n, (part+1)*len(queues)/n
				for w := from + int(next[part].Add(1)) - 1; w < to; w = from + int(next[part].Add(1)) - 1 {
					if int64(w) > first.Load() {
						break // an earlier worker has failed
					}
					a.fillPrompts(queues[w])
					if errs[w] = l.replayWorker(ctx, sim.WorkerID(w), queues[w]); errs[w] != nil {
						noteFirst(&first, int64(w))
					}
				}
			}
		})
	}
	all.Wait()
	if value := broken.Load(); value != nil {
		panic(*value)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	a.joinLanes(lanes)
	return nil
}

// noteFirst lowers *first to w.
func noteFirst(first *atomic.Int64, w int64) {
	for before := first.Load(); w < before && !first.CompareAndSwap(before, w); before = first.Load() {
	}
}

// fillPrompts sets the prompts of requests that were dealt out without.
func (a *alone) fillPrompts(queue []harness.Entering) {
	for i := range queue {
		if a.PromptsLater {
			a.Feed.FillPrompt(queue[i].Request)
		}
	}
}

// forkRun returns a run that notes into a part of the collector.
func (a *alone) forkRun(shown *shownCount) *run {
	config := *a.Config
	config.Progress = nil
	if shown.show != nil {
		config.Progress = shown.newSource()
	}
	inner := *a.Run
	inner.Config, inner.Collector = &config, a.Collector.Part()
	return &run{Run: &inner, cfg: a.cfg}
}

// joinLanes adds what goroutines have noted. Aborted requests are turned away in the order of their workers.
func (a *alone) joinLanes(lanes []*alone) {
	var aborts []abort
	for _, l := range lanes {
		a.Collector.AddPart(l.Collector)
		a.done += l.done
		a.partial = a.partial || l.partial
		aborts = append(aborts, *l.aborts...)
	}
	stable.Sort(aborts, func(x, y abort) int { return cmp.Compare(x.worker, y.worker) })
	for i := range aborts {
		x := &aborts[i]
		a.Reject(a.NewAbort(&x.of))
		a.done++
		a.ended = max(a.ended, x.at)
	}
}

// shownCount adds up the requests that have finished on several goroutines.
type shownCount struct {
	mu   sync.Mutex
	show func(finished int)
	all  int
}

// newSource returns the function that one goroutine calls with the requests that have finished there.
func (p *shownCount) newSource() func(finished int) {
	before := 0
	return func(finished int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all += finished - before
		before = finished
		p.show(p.all)
	}
}
