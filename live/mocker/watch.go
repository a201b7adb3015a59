package mocker

import (
	"slices"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Watcher receives the events of a mocker, on the scheduler's goroutine. Methods of a Watcher must not block.
type Watcher interface {
	// Passed receives a finished pass. p is valid during the call.
	Passed(p *telemetry.Pass)
	// Admitted receives the number of prompt tokens of an admitted request, and the number of its cached tokens.
	Admitted(prompt, cached int)
	// Prefilled receives the number of prompt tokens of a request that has its first token, and the number of its
	// cached tokens.
	Prefilled(prompt, cached int)
	// Over receives a request that has ended or was removed.
	Over(r *RequestFacts)
}

// RequestFacts are the measurements of a finished request.
type RequestFacts struct {
	telemetry.Request
	Reason engine.FinishReason
	Group  *engine.Group // the group of answers of the same HTTP request; nil: a single answer
}

// course is the times of a stream in ms of the engine's clock, and its scheduling state.
type course struct {
	prompt, limit         int
	came, admitted, first sim.Time
	last                  sim.Time
	in                    bool // the request was admitted
	out                   bool // the request is preempted and not readmitted
	lost                  int  // number of preemptions
	why                   engine.FinishReason
	adapter               string
	local                 *engine.Local
}

// watchPass collects the facts of a pass, if there is a watcher. e.mu is held.
func (e *Engine) watchPass(p *scheduler.Pass) {
	if e.options.Watch == nil {
		return
	}
	for _, id := range p.Detail.Lost {
		if s := e.streams[id]; s != nil {
			s.course.lost++
			s.course.out = true
		}
	}
	f := &e.facts
	f.Running, f.Waiting, f.Held, f.Blocks = p.Detail.Running, p.Detail.Waiting, p.Detail.Held, p.Detail.Blocks
	f.Preempted = len(p.Detail.Lost)
	if len(e.options.Adapters) > 0 || e.options.Adapted != nil {
		e.noteAdapters()
	}
}

// noteAdapters collects the adapters of running and of waiting requests. e.mu is held.
func (e *Engine) noteAdapters() {
	f := &e.facts
	f.RunningAdapters, f.WaitingAdapters = f.RunningAdapters[:0], f.WaitingAdapters[:0]
	for _, s := range e.streams { // the names are sorted below
		switch c := &s.course; {
		case c.adapter == "" || s.ended:
		case c.in && !c.out:
			f.RunningAdapters = append(f.RunningAdapters, c.adapter)
		default:
			f.WaitingAdapters = append(f.WaitingAdapters, c.adapter)
		}
	}
	for _, names := range []*[]string{&f.RunningAdapters, &f.WaitingAdapters} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
}

// noteAdmission reports the first admission of a request to the watcher. e.mu is held.
func (e *Engine) noteAdmission(s *stream, at sim.Time, cached int) {
	s.course.out = false
	if e.options.Watch != nil && !s.course.in {
		s.course.in, s.course.admitted = true, at
		e.options.Watch.Admitted(s.course.prompt, cached)
	}
}

// noteTokens sets the tokens of a stream, and collects the facts of the new tokens. e.mu is held.
func (e *Engine) noteTokens(s *stream, tokens int, at sim.Time) {
	if gained := tokens - s.tokens; e.options.Watch != nil && gained > 0 {
		f := &e.facts
		f.Generated += gained
		if s.tokens == 0 {
			s.course.first = at
			f.Firsts = append(f.Firsts, float64(at-s.course.came)/1e3)
			f.PromptTokens += s.course.prompt - s.reused
			e.options.Watch.Prefilled(s.course.prompt, s.reused)
			gained--
		} else {
			f.Gaps = append(f.Gaps, float64(at-s.course.last)/1e3)
			gained--
		}
		for range gained { // the tokens were generated at once
			f.Gaps = append(f.Gaps, 0)
		}
		s.course.last = at
	}
	if tokens != s.tokens {
		e.gained = append(e.gained, s)
	}
	s.setTokens(tokens)
}

// reportPass passes the collected facts of a pass to the watcher. e.mu is held.
func (e *Engine) reportPass() {
	if f := &e.facts; e.options.Watch != nil {
		e.options.Watch.Passed(f)
		f.PromptTokens, f.Generated, f.Firsts, f.Gaps = 0, 0, f.Firsts[:0], f.Gaps[:0]
	}
}

// reportEnd passes the facts of a finished request to the watcher. e.mu is held.
func (e *Engine) reportEnd(s *stream, at sim.Time, why engine.FinishReason) {
	if e.options.Watch == nil {
		return
	}
	c := &s.course
	if c.local != nil && c.local.Enough != nil && c.local.Enough() {
		why = engine.FinishStop
	}
	r := &RequestFacts{Reason: why}
	r.Prompt, r.Cached, r.Generated, r.Limit, r.Preemptions = c.prompt, s.reused, s.tokens, c.limit, c.lost
	if c.local != nil {
		r.Group = c.local.Group
	}
	r.Total = float64(at-c.came) / 1e3
	if c.in {
		r.Queued = float64(c.admitted-c.came) / 1e3
	}
	if s.tokens > 0 {
		r.Prefill, r.Decode = float64(c.first-c.admitted)/1e3, float64(c.last-c.first)/1e3
	}
	e.options.Watch.Over(r)
}
