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

// countThreads returns the number of workers that are replayed in parallel. The result is 1 if the replay has an
// observer, a Stop function, saved or warm caches, a fold, custom engines or a streamed workload.
func (c *Config) countThreads() int {
	if c.Observer != nil || c.Stop != nil || c.Warm != nil || c.Save != nil || c.Fold != nil || c.Engine != nil || c.Streamed() {
		return 1
	}
	return max(1, min(c.Threads, c.Pools[0].Count))
}

// runAtOnce replays workers on n goroutines, each with a separate part of the collector. The result does not depend
// on n, and the error is that of the first worker with an error.
//
// Requests that arrive one after the other are neighbors in memory, and round robin places them on neighboring
// workers. Each goroutine begins with a separate range of workers and then helps with the other ranges, so that cores
// do not compete for cache lines. To avoid shared cache lines, each goroutine also allocates the memory that it
// writes to.
func (a *alone) runAtOnce(ctx context.Context, queues [][]harness.Entering, n int) error {
	a.WaitPrompts()
	shown := shownCount{show: a.Progress}
	lanes, errs := make([]*alone, n), make([]error, len(queues))
	next := make([]atomic.Int64, n) // next worker of each range
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

// noteFirst lowers *first to w if w is smaller.
func noteFirst(first *atomic.Int64, w int64) {
	for before := first.Load(); w < before && !first.CompareAndSwap(before, w); before = first.Load() {
	}
}

// fillPrompts sets the prompts of requests that were assigned without prompts.
func (a *alone) fillPrompts(queue []harness.Entering) {
	for i := range queue {
		if a.PromptsLater {
			a.Feed.FillPrompt(queue[i].Request)
		}
	}
}

// forkRun returns a run with a part of the collector.
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

// joinLanes adds the results of the goroutines to a. Aborted requests are rejected in the order of their workers.
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

// shownCount adds up the finished requests of several goroutines.
type shownCount struct {
	mu   sync.Mutex
	show func(finished int)
	all  int
}

// newSource returns a function for one goroutine, which calls it with the number of its finished requests.
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
