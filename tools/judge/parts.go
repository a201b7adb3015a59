package main

import (
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/sim"
)

// parts contains the parts of mean TPOT, in ms per token. Mean TPOT is linear in the corrections if they do not
// change which requests share a pass.
type parts struct {
	plain    float64 // operators of passes that only decode
	prompts  float64 // operators of passes that also compute prompts
	mixed    float64 // passes per token that also compute prompts
	passes   float64 // passes per token
	requests float64 // requests of these passes
}

// tpot returns mean TPOT with the given corrections.
func (p *parts) tpot(c *silicon.Corrections) float64 {
	return p.plain + float64(c.Prompts*p.prompts) + float64(c.Prompt*p.mixed) + float64(c.Base*p.passes) + float64(c.Request*p.requests)
}

// partsLog sums up the parts. partsLog observes the replay of one worker.
type partsLog struct {
	harness.NoObserver
	corrections silicon.Corrections // corrections of the replay
	ranks       int
	waiting     int // requests between their first and their last token
	parts       parts
}

// Pass adds a pass for each request that is between its first and its last token.
func (l *partsLog) Pass(_ scheduler.Role, _ sim.WorkerID, p *scheduler.Pass) {
	n := float64(l.waiting)
	requests := float64(p.Decoding+len(p.Detail.Work)) / float64(l.ranks)
	for i := range p.Count {
		operators := float64(p.GapOf(i)) - l.corrections.Base - float64(l.corrections.Request*requests)
		if p.PrefillTokens > 0 {
			l.parts.prompts += n * (operators - l.corrections.Prompt) / l.corrections.Prompts
			l.parts.mixed += n
		} else {
			l.parts.plain += n * operators
		}
		l.parts.passes += n
		l.parts.requests += n * requests
	}
	for _, m := range p.Marks {
		if m.First {
			l.waiting++
		}
		if m.Last {
			l.waiting--
		}
	}
}

// perToken returns the parts of a run per token. First tokens do not count.
func (l *partsLog) perToken(tokens int) parts {
	n := float64(max(tokens, 1))
	return parts{l.parts.plain / n, l.parts.prompts / n, l.parts.mixed / n, l.parts.passes / n, l.parts.requests / n}
}
