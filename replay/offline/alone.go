package offline

import (
	"context"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// alone drives independent workers: an open loop under a policy that reads no state of workers. alone replays one
// worker after the other, each to its end, or several workers in parallel (threads.go).
type alone struct {
	*run
	pass   scheduler.Pass
	aborts *[]abort // kept for the driver that joins the goroutines; nil: requests are rejected at once
}

func (a *alone) runWorkers(ctx context.Context) error {
	a.addDetail(&a.pass)
	queues, err := a.dealRequests()
	if err != nil {
		return err
	}
	if n := a.cfg.countThreads(); n > 1 {
		return a.runAtOnce(ctx, queues, n)
	}
	for w, queue := range queues {
		if err := a.replayWorker(ctx, sim.WorkerID(w), queue); err != nil {
			return err
		}
	}
	return nil
}

// replayWorker replays a new worker from its first request to its last.
func (a *alone) replayWorker(ctx context.Context, w sim.WorkerID, queue []harness.Entering) error {
	core, err := a.Stages[0].Core(w)
	if err != nil {
		return err
	}
	if err := a.warmAlone(w, core); err != nil {
		return err
	}
	if err := a.runWorker(ctx, w, core, queue); err != nil {
		return err
	}
	a.saveAlone(w, core)
	return nil
}

// dealRequests takes all requests from the feed and assigns them to workers.
func (a *alone) dealRequests() ([][]harness.Entering, error) {
	route, err := a.Stages[0].NewRouter()
	if err != nil {
		return nil, err
	}
	end := a.endInstant()
	queues := make([][]harness.Entering, a.Stages[0].Count)
	for w := range queues {
		queues[w] = make([]harness.Entering, 0, a.Use.Requests/len(queues)+1)
	}
	var batch []harness.Entering
	var placed []router.Placement
	for at, ok := a.Next(0, 0); ok && at < end; at, ok = a.Next(at, 0) {
		batch = a.Take(at, 0, batch[:0])
		for i := range batch {
			x := &batch[i]
			if ok, err := a.noteArrival(x); err != nil {
				return nil, err
			} else if !ok {
				continue
			}
			if placed, err = route.Route(x.At, x.Request, placed[:0]); err != nil {
				return nil, err
			}
			a.Routed(scheduler.Aggregated, x.At, &placed[0])
			w := placed[0].Worker
			queues[w] = append(queues[w], *x)
		}
	}
	a.partial = !a.Done()
	return queues, nil
}

// runWorker runs the requests of one worker to their end.
func (a *alone) runWorker(ctx context.Context, w sim.WorkerID, core scheduler.Core, queue []harness.Entering) error {
	now, end := sim.Time(0), a.endInstant()
	for now < end && (len(queue) > 0 || core.Load() > 0) {
		for len(queue) > 0 && queue[0].At <= now {
			core.Submit(queue[0].Request)
			queue = queue[1:]
		}
		if core.Load() == 0 {
			now = queue[0].At
			continue
		}
		if err := a.checkInterrupt(ctx); err != nil {
			return err
		}
		until := end
		if len(queue) > 0 {
			until = min(until, queue[0].At)
		}
		if err := core.Step(now, until, &a.pass); err != nil {
			return a.Failed(w, now, err)
		}
		if len(queue) > 0 {
			a.pass.EndWait(queue[0].At)
		}
		a.endAborted(w, now)
		now = a.pass.End
		a.Passed(scheduler.Aggregated, w, &a.pass)
		for i := range a.pass.Marks {
			if a.pass.Marks[i].Last {
				a.done++
			}
		}
	}
	if core.Load() > 0 || len(queue) > 0 {
		a.partial = true
		a.recordProgress(core)
	}
	return nil
}

// endAborted ends the requests that the engine of worker w has aborted.
func (a *alone) endAborted(w sim.WorkerID, at sim.Time) {
	for i := range a.pass.Aborted {
		x := &a.pass.Aborted[i]
		if a.aborts != nil {
			*a.aborts = append(*a.aborts, abort{worker: w, at: at, of: *x})
			continue
		}
		if a.Observer != nil {
			a.Observer.Left(&harness.Departure{
				Request: x.Request, Stage: scheduler.Aggregated, Worker: w, At: at, Outcome: collector.Rejected, Gained: x.Tokens, Last: x.Last,
			})
		}
		a.Reject(a.NewAbort(x))
		a.done++
		a.ended = max(a.ended, at)
	}
}
