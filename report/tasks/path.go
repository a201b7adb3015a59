package tasks

import (
	"math"
	"slices"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// pather finds critical paths.
type pather struct {
	w       *loadgen.Workload
	speedup sim.Time // of delays
	records []collector.Record
	of      []int32 // by turn: its request, -1: it has not arrived
}

func newPather(w *loadgen.Workload, a loadgen.Admission, records []collector.Record) *pather {
	p := &pather{w: w, speedup: 1, records: records, of: make([]int32, len(w.Turns))}
	if a.Mode == loadgen.Trace {
		p.speedup = sim.Time(a.Speedup)
	}
	first := make([]int32, len(w.Sessions)+1)
	for i := range w.Sessions {
		first[i+1] = first[i] + w.Sessions[i].Turns
	}
	requests := make([]int32, len(w.Turns)) // by task and position in the task
	for i := range requests {
		requests[i] = -1
	}
	for id := range records {
		requests[first[records[id].Session]+records[id].Turn] = int32(id)
	}
	for turn := range w.Turns {
		p.of[turn] = requests[first[w.Turns[turn].Session]+w.Turns[turn].Index]
	}
	return p
}

// recordOf returns the record of a turn, nil if it has not arrived.
func (p *pather) recordOf(turn int32) *collector.Record {
	if p.of[turn] < 0 {
		return nil
	}
	return &p.records[p.of[turn]]
}

// hasBegun reports whether a request of a task has arrived.
func (p *pather) hasBegun(task int32) bool {
	for turn := p.w.Sessions[task].First; turn >= 0; turn = p.w.Turns[turn].Next {
		if p.of[turn] >= 0 {
			return true
		}
	}
	return false
}

// describeTask returns the result of a task.
func (p *pather) describeTask(task int32) Task {
	s := &p.w.Sessions[task]
	t := Task{Name: p.w.SessionID(int(task)), Requests: int(s.Turns)}
	start, end, last := sim.Time(math.Inf(1)), sim.Time(math.Inf(-1)), int32(-1)
	for turn := s.First; turn >= 0; turn = p.w.Turns[turn].Next {
		r := p.recordOf(turn)
		if r == nil {
			continue
		}
		start = min(start, r.Arrival)
		if !r.Counted() || r.Tokens < r.OutputTokens {
			continue
		}
		t.Completed++
		t.Parallel += msOf(countNS(r.Last) - countNS(r.Arrival))
		if last < 0 || r.Last > end || r.Last == end && p.of[turn] < p.of[last] {
			end, last = r.Last, turn
		}
	}
	if !math.IsInf(float64(start), 0) {
		t.Start = msOf(countNS(start))
	}
	if !t.Finished() {
		t.Parallel = 0
		return t
	}
	whole := countNS(end) - countNS(start)
	t.Latency = msOf(whole)
	if whole > 0 {
		t.Parallel /= t.Latency
	}
	p.findPath(&t, last, countNS(start))
	return t
}

// spans holds the parts in whole ns.
type spans struct{ wait, tool, queue, prefill, decode int64 }

func (s *spans) parts() Parts {
	return Parts{msOf(s.wait), msOf(s.tool), msOf(s.queue), msOf(s.prefill), msOf(s.decode)}
}

// findPath follows the critical path backwards from the last token of the task. Each step goes to the request with
// the end (or arrival) and delay that released the next request.
func (p *pather) findPath(t *Task, turn int32, start int64) {
	var sum spans
	begun := false
	for turn >= 0 {
		r := p.recordOf(turn)
		var s spans
		if !begun {
			admit, first := countNS(max(r.Admit, r.Arrival)), countNS(r.First)
			admit = min(admit, first)
			s.queue, s.prefill, s.decode = admit-countNS(r.Arrival), first-admit, countNS(r.Last)-first
		}
		before, wait := p.latestWait(turn)
		from, ready := start, start
		if before >= 0 {
			from = countNS(p.instantOf(wait))
			ready = countNS(p.instantOf(wait) + wait.Delay/p.speedup)
		}
		s.wait = max(0, countNS(r.Arrival)-ready)
		s.tool = countNS(r.Arrival) - from - s.wait
		t.Path = append(t.Path, Hop{Request: int(p.of[turn]), Line: int(p.w.Turns[turn].Line), Begun: begun, Parts: s.parts()})
		sum.wait += s.wait
		sum.tool += s.tool
		sum.queue += s.queue
		sum.prefill += s.prefill
		sum.decode += s.decode
		turn, begun = before, before >= 0 && wait.Start
	}
	slices.Reverse(t.Path)
	t.Parts = sum.parts()
}

// latestWait returns the turn that last became ready before the given turn. Of several it returns the one that
// arrived first; -1: the turn waited for none.
func (p *pather) latestWait(turn int32) (before int32, wait loadgen.Wait) {
	before = -1
	at := sim.Time(0)
	for _, w := range p.w.Graph.WaitsOf(turn) {
		ready := p.instantOf(w) + w.Delay/p.speedup
		if before < 0 || ready > at || ready == at && p.of[w.For] < p.of[before] {
			before, wait, at = w.For, w, ready
		}
	}
	return before, wait
}

// instantOf returns the time at which the condition of a wait became true.
func (p *pather) instantOf(w loadgen.Wait) sim.Time {
	if w.Start {
		return p.recordOf(w.For).Arrival
	}
	return p.recordOf(w.For).Last
}

// countNS returns a time in whole ns, so that the parts of a path sum to its total.
func countNS(t sim.Time) int64 { return int64(math.Round(float64(t) * 1e6)) }

func msOf(ns int64) float64 { return float64(ns) / 1e6 }
