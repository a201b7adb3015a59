package requests

import (
	"github.com/replay-llm/replay/internal/sliding"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Recorder records facts that the collector does not have: the router's decision, preemptions, the stages of a
// disaggregated replay, and the longest time between two tokens (see gaps.go).
//
// Recorder is an observer of a replay (harness.Observer).
type Recorder struct {
	seen  sliding.List[sight] // by request
	gaps  harness.PerWorker[decoding]
	blind bool // some engine does not report the requests that it preempts
}

// sight holds the recorded data of one request.
type sight struct {
	line      int32
	preempted int32

	routed         sim.Time
	cost, nextCost float64
	overlap        int32
	blocks         int32
	next           sim.WorkerID
	placed, scored bool

	prefillEnd, decodeStart, decodeAdmit MS

	tokens interval
}

// Grow reserves memory for this number of requests.
func (rec *Recorder) Grow(requests int) {
	rec.seen.Grow(requests)
}

// Drop removes the data of all requests with smaller ids.
func (rec *Recorder) Drop(before sim.RequestID) { rec.seen.Drop(int(before)) }

func (rec *Recorder) sightOf(id sim.RequestID) *sight { return rec.seen.At(int(id)) }

// Arrived records a request.
func (rec *Recorder) Arrived(q *sim.Request, _ sim.Time) {
	rec.seen.Append(sight{
		line: int32(q.Line), prefillEnd: Unknown(), decodeStart: Unknown(), decodeAdmit: Unknown(),
	})
}

// Routed records the routing decision for the first stage of a request.
func (rec *Recorder) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	if stage == scheduler.Decode && !p.Request.Local {
		return
	}
	s := rec.sightOf(p.Request.ID)
	s.routed, s.placed = at, true
	s.scored = p.Blocks > 0 || p.Cost != 0 || p.Second != router.None
	s.cost, s.nextCost, s.overlap, s.blocks, s.next = p.Cost, p.SecondCost, p.Overlap, p.Blocks, p.Second
}

// Handoff records the transfer of a KV cache.
func (rec *Recorder) Handoff(id sim.RequestID, from, to sim.Time) {
	s := rec.sightOf(id)
	s.prefillEnd, s.decodeStart = MS(from), MS(to)
}

// Left drops the data of a request that begins again. For a request that continues, it records the time without a
// token.
func (rec *Recorder) Left(d *harness.Departure) {
	s := rec.sightOf(d.Request)
	if s.tokens.inside {
		rec.gaps.At(d.Stage, d.Worker).dropRequest(&s.tokens)
	}
	s.decodeAdmit, s.prefillEnd, s.decodeStart = Unknown(), Unknown(), Unknown()
	switch {
	case !d.Keeps:
		s.tokens = interval{}
	case d.Gained > 0:
		s.tokens.resumed, s.tokens.last = true, d.Last
	}
}

// Pass records preempted requests, requests that reached the decode worker, and the times between tokens.
func (rec *Recorder) Pass(stage scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	lost := []sim.RequestID(nil)
	if p.Detail != nil {
		lost = p.Detail.Lost
	}
	for _, id := range lost {
		rec.sightOf(id).preempted++
	}
	rec.blind = rec.blind || len(lost) != p.Preempted
	if stage == scheduler.Prefill {
		return
	}
	if stage == scheduler.Decode {
		for _, a := range p.Admitted {
			if s := rec.sightOf(a.Request); !s.decodeAdmit.Known() {
				s.decodeAdmit = MS(p.Start)
			}
		}
	}
	d := rec.gaps.At(stage, w)
	d.seen = &rec.seen
	d.addPass(p)
}

// fillRow adds the recorded data to r.
func (rec *Recorder) fillRow(r *Row) {
	if r.ID >= rec.seen.Len() {
		return
	}
	s := rec.seen.At(r.ID)
	if s.line > 0 {
		r.Line = Count(s.line)
	}
	if !rec.blind {
		r.Preemptions = Count(s.preempted)
	}
	if s.placed {
		r.Routed = MS(s.routed)
	}
	if s.scored {
		r.Overlap, r.PromptBlocks, r.Cost = Count(s.overlap), Count(s.blocks), MS(s.cost)
		if s.next != router.None {
			r.RunnerUp, r.RunnerUpCost = Count(s.next), MS(s.nextCost)
		}
	}
	r.PrefillEnd, r.DecodeStart, r.DecodeAdmit = s.prefillEnd, s.decodeStart, s.decodeAdmit
	if s.prefillEnd.Known() {
		r.Transfer = s.decodeStart - s.prefillEnd
		r.Prefill = MS(sim.Time(s.prefillEnd - r.Admit).Max0())
	}
	if longest, ok := s.tokens.longestKnown(); ok && r.Finished() && r.Tokens >= 2 {
		r.ITLMax = MS(longest)
	}
}
