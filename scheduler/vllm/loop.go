package vllm

import (
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm/host"
	"github.com/replay-llm/replay/scheduler/vllm/simplecpu"
	"github.com/replay-llm/replay/sim"
)

// loop is the loop of vLLM's EngineCore with a connector: it accepts arrivals and plans a pass. The loop waits for
// the end of the oldest pass if two passes are in progress or nothing is left to plan. The loop sleeps after an
// iteration with an empty plan, while requests or transfers are left.
type loop struct {
	queued   int      // number of passes in progress: Core.next and Core.after
	executed bool     // the latest plan has work
	napping  bool     // the running pass is a sleep
	slept    bool     // the running pass has no work and ends with a sleep
	awake    sim.Time // end of the latest sleep
	resumes  sim.Time // start of the next iteration
	begun    sim.Time // start of the step
	unread   sim.Time // time at which the worker starts the pass that has ended, if more reads of KV caches may end until then
	nanos    []int64  // scratch memory of timePass
	alone    bool     // nothing can run, and later iterations must be caught up
}

// transit is the connector's data of a pass.
type transit struct {
	ran    bool     // the pass has work
	start  sim.Time // start of the pass's computation
	end    sim.Time
	nanos  int64            // duration of the pass in ns; 0 if not an integer
	done   []*host.Job      // transfers that the pass reports as ended
	copied []*simplecpu.Job // transfers of the SimpleCPUOffloadConnector that the pass reports as ended
	taken  sim.Time         // time at which the worker starts the pass
}

// hasWork reports whether vLLM's scheduler has work.
func (k *connector) hasWork() bool {
	return k.isBusy(0)
}

// isBusy reports whether vLLM's scheduler has work, not counting the given number of transfers. In 0.24, transfers of
// the SimpleCPUOffloadConnector do not count.
func (k *connector) isBusy(without int) bool {
	pending := k.Pending - without
	if k.simple != nil && !k.simple.Finishes {
		pending = k.away
	}
	return k.core.live > 0 || pending > 0 || len(k.written) > 0 || len(k.Ended) > 0 && k.core.rules.EmptyPassIdle
}

// QuietUntil returns the instant, at most until, up to which no transfer ends. QuietUntil returns 0 if a transfer
// starts with the next pass.
func (k *connector) QuietUntil(until sim.Time) sim.Time {
	if until = k.Connector.QuietUntil(until); k.simple == nil {
		return until
	}
	if end, ok := k.simple.Next(-1); ok {
		until = min(until, end)
	}
	if !k.simple.IsQuiet() {
		return 0
	}
	return until
}

// NextEnd returns the next end of a transfer after now, or now if there is none.
func (k *connector) NextEnd(now sim.Time) sim.Time {
	if k.simple != nil {
		if end, ok := k.simple.Next(now); ok {
			return end
		}
	}
	return k.Connector.NextEnd(now)
}

// napEnd returns the end of a sleep that begins at now.
func (k *connector) napEnd(now sim.Time) sim.Time {
	if ms := k.core.rules.EmptyPassMs; ms > 0 {
		return now + sim.Time(ms)
	}
	return k.NextEnd(now) // an engine without sleeps polls until a transfer ends
}

// begin implements Core.Begin with a connector.
func (k *connector) begin(now sim.Time, p *scheduler.Pass) (*timing.Step, error) {
	c := k.core
	k.finishLate(now)
	if k.alone {
		if err := k.catchUp(now, p); err != nil {
			return nil, err
		}
		k.alone = false
	}
	c.progress.further = false
	if k.napping = now < k.awake; k.napping {
		c.idle = true
		return &timing.Step{}, nil
	}
	for {
		if k.executed = false; k.hasWork() {
			if err := k.plan(now, p); err != nil {
				return nil, err
			}
			if k.isStalled(p) {
				if k.queued = 0; len(c.kept) == 0 {
					return nil, c.stallError()
				}
				p.Blocked = true
				return nil, nil
			}
			if p.Blocked = k.waitsForOthers(p); p.Blocked {
				k.resumes, k.alone = k.endEmptyIteration(now), true
				return nil, nil
			}
			if c.rules.TwoInFlight && k.queued < 2 && (k.executed || k.hasWork()) {
				if k.executed {
					continue
				}
				k.awake, k.napping, c.idle = k.napEnd(now), true, true
				return &timing.Step{}, nil
			}
		}
		c.idle = !c.next.ran
		return &c.next.step, nil
	}
}

// plan plans the next pass.
func (k *connector) plan(now sim.Time, p *scheduler.Pass) error {
	c := k.core
	f := c.next
	if k.queued == 1 {
		f = c.after
	}
	k.watching = k.Storing || len(k.Ended) > 0
	if k.simple != nil {
		k.simple.BeginPlan(c.admitted)
	}
	c.planPass(f, p)
	p.Pulls, k.written = append(p.Pulls, k.written...), k.written[:0]
	err := k.closePlan(f, now)
	k.queued++
	k.executed = f.ran
	return err
}

// isStalled reports whether the plan is empty and nothing in progress can change that.
func (k *connector) isStalled(p *scheduler.Pass) bool {
	return !k.executed && k.Pending == 0 && len(k.fenced) == 0 && k.core.live > 0 && p.Preempted == 0 && (k.queued < 2 || !k.core.next.ran)
}

// end implements Core.End with a connector.
func (k *connector) end(p *scheduler.Pass) error {
	c := k.core
	if k.napping {
		p.Gap = p.End - p.Start
		c.describePass(new(flight), p)
		k.resumes, k.alone = p.End, c.live == 0
		c.checkAccounts()
		return c.checkProgress(p)
	}
	f := c.next
	c.next, c.after = c.after, f
	k.queued--
	if f.ran {
		k.drainFences(f)
	}
	c.deliverTokens(f, p)
	k.finishJobs(f)
	p.Gap = p.End - p.Start
	c.passes++
	k.resumes = p.End
	if k.slept {
		k.slept = false
	} else if !k.executed && k.hasWork() {
		k.awake = k.napEnd(p.End)
		k.resumes = k.awake
	}
	k.alone = c.live == 0
	c.describePass(f, p)
	if c.cfg.Speculation != nil {
		c.drafts.freeSlots(p.End)
		c.drafts.left = 0
	}
	c.checkAccounts()
	return c.checkProgress(p)
}

// catchUp runs the iterations before now in which no request was left.
func (k *connector) catchUp(now sim.Time, p *scheduler.Pass) error {
	c := k.core
	live := c.live
	c.live = 0
	defer func() { c.live = live }()
	t := k.resumes
	for t < now {
		if k.hasWork() {
			f := c.next
			if k.queued == 1 {
				f = c.after
			}
			f.clear()
			c.plans++
			f.plan, f.step = c.plans, timing.Step{}
			if err := k.closePlan(f, t); err != nil {
				return err
			}
			k.queued++
			t = k.endEmptyIteration(t)
		} else if k.queued == 0 {
			t = now
		} else {
			t = k.takeOldest(t)
		}
	}
	k.awake = t
	return nil
}

// endEmptyIteration ends the iteration at t with an empty plan, and returns the start of the next iteration.
func (k *connector) endEmptyIteration(t sim.Time) sim.Time {
	if k.core.rules.TwoInFlight && k.queued < 2 && k.hasWork() {
		return k.napEnd(t)
	}
	return k.takeOldest(t)
}

// takeOldest ends the oldest running pass, which has no tokens, in the iteration at t. takeOldest returns the start
// of the next iteration.
func (k *connector) takeOldest(t sim.Time) sim.Time {
	c := k.core
	f := c.next
	c.next, c.after = c.after, f
	k.queued--
	if t = max(t, f.end); f.ran {
		k.drainFences(f)
	}
	c.calm.delivered, c.calm.lastEnd = f.plan, t
	k.finishJobs(f)
	if k.hasWork() {
		t = k.napEnd(t)
	}
	return t
}

// timePass sets the end of the pass of f.
func (k *connector) timePass(f *flight) error {
	p := scheduler.Pass{Start: f.end, End: f.end, Nanos: k.nanos[:0]}
	idle := k.core.idle
	k.core.idle = false
	err := k.core.setEnd(&f.step, &p)
	k.core.idle = idle
	f.start, f.nanos, k.nanos = p.Start, 0, p.Nanos
	if len(p.Nanos) > 0 {
		f.nanos = p.Nanos[0]
	}
	f.end = p.End
	return err
}

// setEnd sets p.End to the end of the running pass.
func (k *connector) setEnd(p *scheduler.Pass) error {
	c := k.core
	f := c.next
	if k.napping || !f.ran {
		if k.napping {
			p.End = max(p.Start, k.awake)
		} else if p.End = max(p.Start, f.end); !k.executed && k.isBusy(len(f.done)+len(f.copied)) {
			k.slept, p.End = true, k.napEnd(p.End)
		} else {
			k.slept = false
		}
		if p.Detail != nil {
			p.Detail.PrefillEnd = p.Start
		}
		return nil
	}
	if p.Detail != nil {
		if err := c.setEnd(&f.step, p); err != nil {
			return err
		}
		p.Detail.PrefillEnd += f.end - p.End
	}
	p.End, p.Nanos = max(p.Start, f.end), p.Nanos[:0]
	if f.nanos > 0 && p.Start == f.start {
		p.Nanos = append(p.Nanos, f.nanos)
	}
	return nil
}

// isQuiet reports whether only passes and transfers are in progress, and no transfer starts or ends at now. Equal
// passes can then run together.
func (k *connector) isQuiet(now sim.Time) bool {
	passes := 0
	if k.core.rules.TwoInFlight {
		passes = 1
	}
	if k.away > 0 { // the ends of reads of KV caches are not known here
		return false
	}
	for _, s := range k.aside {
		if r := &k.core.requests[s]; r.state != loading || r.offload.Arrived {
			return false
		}
	}
	// A queued request may wait for a transfer.
	waits := min(k.Pending, k.core.waiting.Len()) + len(k.Ended) + len(k.fenced) + k.Failing + len(k.core.next.done) + len(k.core.next.copied)
	if k.simple != nil {
		waits += k.simple.Dues
	}
	onTime := passes == 0 || k.core.next.start == now // false if the worker was delayed
	return waits == 0 && k.queued == passes && onTime && !k.alone && now >= k.awake && k.QuietUntil(now+1) > now
}

// endRun moves the loop to the end of the run p.
func (k *connector) endRun(p *scheduler.Pass) (err error) {
	k.Free = p.End
	if f := k.core.next; k.core.rules.TwoInFlight {
		f.end = p.End
		err = k.timePass(f)
		k.Free = f.end
	}
	k.resumes, k.executed, k.napping = p.End, true, false
	return err
}

// WaitsUntil returns the end of the current pass if the engine waits for transfers and computes nothing.
func (c *Core) WaitsUntil() sim.Time {
	switch k := c.conn; {
	case k == nil:
		return 0
	case k.napping:
		return k.awake
	case !c.next.ran:
		return c.next.end
	}
	return 0
}
