package main

import (
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/silicon"
	"github.com/replay-llm/replay/sim"
)

// parts are the parts of mean TPOT, in ms a token. It is linear in the corrections of pass times as long as they do not
// change which requests share a pass.
type parts struct {
	plain    float64 // operators of passes that only decode
	prompts  float64 // operators of passes that also compute prompts
	mixed    float64 // passes a token that also compute prompts
	passes   float64 // passes a token
	requests float64 // requests of these passes
}

// tpot returns mean TPOT with corrections.
func (p *parts) tpot(c *silicon.Corrections) float64 {
	return p.plain + float64(c.Prompts*p.prompts) + float64(c.Prompt*p.mixed) + float64(c.Base*p.passes) + float64(c.Request*p.requests)
}

// partsLog gathers the parts. It observes the replay of one worker.
type partsLog struct {
	harness.NoObserver
	corrections silicon.Corrections // of the replay
	ranks       int
	waiting     int // requests between their first and their last token
	parts       parts
}

// Pass adds a pass, which each request waits for that has its first token and not its last one.
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

// perToken returns the parts of a run for each of its tokens after the first ones.
func (l *partsLog) perToken(tokens int) parts {
	n := float64(max(tokens, 1))
	return parts{l.parts.plain / n, l.parts.prompts / n, l.parts.mixed / n, l.parts.passes / n, l.parts.requests / n}
}
