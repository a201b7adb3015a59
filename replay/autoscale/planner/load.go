package planner

import (
	"fmt"
	"math"

	"github.com/replay-llm/replay/scheduler"
)

// The constants are the thresholds of the targets throughput and latency. For a prefill worker, the thresholds apply
// to queued prompt tokens as a share of the maximum context length. For other workers, the thresholds apply to KV
// tokens as a share of the KV cache.
const (
	queueUpThroughput, queueDownThroughput = 1.0, 0.1
	queueUpLatency, queueDownLatency       = 0.1, 0.0
	kvUpThroughput, kvDownThroughput       = 1.0, 0.6
	kvUpLatency, kvDownLatency             = 0.4, 0.1
)

// scaleByLoad returns the number of workers required by the latest passes.
func (p *Planner) scaleByLoad(passes []scheduler.Snapshot) (int, bool) {
	switch {
	case p.ready != p.expected:
		p.why = "workers are starting"
		return 0, false
	case len(passes) == 0:
		p.why = "no worker has reported a pass"
		return 0, false
	case len(passes) != p.ready:
		p.why = fmt.Sprintf("%d of %d workers have reported a pass", len(passes), p.ready)
		return 0, false
	}
	n, ok := p.compare(passes)
	switch {
	case ok:
	case p.role == scheduler.Aggregated && (p.model == nil || !p.model.isReady()):
		return 0, false
	default:
		n = p.ready
	}
	to := max(n, p.least)
	if p.c.throughput() && to < p.floor {
		to = p.floor
		p.why += fmt.Sprintf("; traffic requires %d", to)
	}
	return p.guard(to), true
}

// compare returns the number of workers required by the passes, without minimum and budget.
func (p *Planner) compare(passes []scheduler.Snapshot) (int, bool) {
	if p.model == nil {
		return p.compareShares(passes)
	}
	return p.compareObjectives(passes)
}

// share returns the load of a worker for comparison with the thresholds.
func (p *Planner) share(s *scheduler.Snapshot) float64 {
	switch {
	case p.role == scheduler.Prefill && p.c.Target == Load:
		return float64(s.QueuedPrefill.Sum)
	case p.role == scheduler.Prefill:
		return float64(s.QueuedPrefill.Sum) / float64(p.engine.ContextLength)
	}
	tokens := s.Decode.Sum + s.QueuedDecode.Sum
	if p.role == scheduler.Aggregated {
		tokens += s.QueuedPrefill.Sum
	}
	return float64(tokens) / float64(p.engine.KVTokens)
}

// thresholds are the loads at which workers are added and removed.
type thresholds struct {
	up, down float64
	// upAt and downAt report whether a share equal to the threshold is enough.
	upAt, downAt bool
}

func (p *Planner) thresholds() thresholds {
	c := p.c
	switch prefill := p.role == scheduler.Prefill; {
	case prefill && c.Target == Load:
		return thresholds{float64(*c.QueueUp), float64(*c.QueueDown), true, true}
	case prefill && c.Target == Latency:
		return thresholds{queueUpLatency, queueDownLatency, true, true}
	case prefill:
		return thresholds{queueUpThroughput, queueDownThroughput, true, false}
	case c.Target == Load:
		return thresholds{*c.KVUp / 100, *c.KVDown / 100, true, true}
	case c.Target == Latency:
		return thresholds{kvUpLatency, kvDownLatency, false, false}
	}
	return thresholds{kvUpThroughput, kvDownThroughput, false, false}
}

// compareShares returns one worker more if a share is above the upper threshold. compareShares returns one less if
// all shares are below the lower threshold, unless the remaining workers would exceed the upper threshold.
func (p *Planner) compareShares(passes []scheduler.Snapshot) (int, bool) {
	t, most := p.thresholds(), math.Inf(-1)
	for i := range passes {
		most = max(most, p.share(&passes[i]))
	}
	p.why = p.describeShare(most)
	switch {
	case most > t.up || t.upAt && most == t.up:
		p.why += fmt.Sprintf(", above %s: one more", p.format(t.up))
		return p.ready + 1, true
	case p.ready > 1 && (most < t.down || t.downAt && most == t.down):
		n := max(p.ready-1, p.least)
		if n < p.ready && most*float64(p.ready)/float64(n) >= t.up {
			p.why += fmt.Sprintf(", above %s with one fewer", p.format(t.up))
			return p.ready, true
		}
		p.why += fmt.Sprintf(", below %s: one fewer", p.format(t.down))
		return n, true
	}
	return 0, false
}

// describeShare describes the largest share.
func (p *Planner) describeShare(most float64) string {
	if p.role == scheduler.Prefill {
		return "waiting prompt tokens of a worker up to " + p.format(most)
	}
	return "KV use of a worker up to " + p.format(most)
}

func (p *Planner) format(share float64) string {
	if p.role == scheduler.Prefill && p.c.Target == Load {
		return fmt.Sprintf("%.0f", share)
	}
	return fmt.Sprintf("%.3g %%", share*100)
}
