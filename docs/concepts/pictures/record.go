package main

import (
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// recording holds the events of a replay. Times are in ms.
type recording struct {
	harness.NoObserver
	requests []*request
	passes   []pass
	end      float64
}

// request holds the events of a request.
type request struct {
	id               int
	arrived          float64
	worker           int // of the decode or only stage
	overlap, blocks  int // of its prompt: cached where it was sent, and all
	computed         int // prompt tokens
	input            int // prompt tokens
	first, last      float64
	sent, got        float64 // its KV cache left the prefill worker, reached the decode worker
	prefills, tokens []span  // passes that computed its prompt; passes that generated its tokens
}

// span is a time span with a number of tokens.
type span struct {
	from, to float64
	tokens   int
}

// pass is a pass of a worker.
type pass struct {
	from, to        float64
	stage           scheduler.Role
	prompt, answers int  // computed tokens: of prompts, and one per continued answer
	gained          int  // generated tokens
	inRun           bool // one of several that are replayed at once
}

// Arrived records a request.
func (r *recording) Arrived(q *sim.Request, at sim.Time) {
	r.requests = append(r.requests, &request{id: int(q.ID), arrived: float64(at), input: q.InputTokens})
}

// Routed records the worker of a request.
func (r *recording) Routed(stage scheduler.Role, _ sim.Time, p *router.Placement) {
	q := r.requests[p.Request.ID]
	if stage != scheduler.Prefill {
		q.worker = int(p.Worker)
	}
	q.blocks = p.Request.InputTokens / 64
}

// Handoff records the transfer of the KV cache of a request.
func (r *recording) Handoff(id sim.RequestID, from, to sim.Time) {
	r.requests[id].sent, r.requests[id].got = float64(from), float64(to)
}

// Pass records each pass of a run.
func (r *recording) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	for _, a := range p.Admitted {
		if stage != scheduler.Decode {
			r.requests[a.Request].overlap = a.Reused / 64
		}
	}
	for i := range p.Count {
		from, to := float64(p.Begins(i)), float64(p.End)
		if i+1 < p.Count {
			to = float64(p.Begins(i + 1))
		}
		r.passes = append(r.passes, pass{from, to, stage, p.PrefillTokens, p.Decoding + len(p.Gaps), p.Tokens, p.Count > 1})
		r.end = max(r.end, to)
		for _, q := range r.requests {
			if q.first > 0 && q.last == 0 && stage != scheduler.Prefill && q.worker == int(w) && q.got <= from {
				q.tokens = append(q.tokens, span{from, to, 1})
			}
		}
	}
	for _, work := range p.Detail.Work {
		if stage == scheduler.Decode {
			break // of a prompt that came computed
		}
		q := r.requests[work.Request]
		q.prefills = append(q.prefills, span{float64(p.Start), float64(p.End), work.Prompt})
		q.computed += work.Prompt
	}
	for _, m := range p.Marks {
		q := r.requests[m.Request]
		if m.First && q.first == 0 {
			q.first = float64(p.End)
		}
		if m.Last && stage != scheduler.Prefill {
			q.last = float64(p.End)
		}
	}
}
