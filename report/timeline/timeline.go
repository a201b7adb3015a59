// Package timeline writes a replay as a trace of events for Perfetto and Chrome (the JSON trace event format), while
// it runs.
//
// Read timeline.go (the shown events), lane.go (the lanes of requests, and the arrows), marks.go (faults and
// autoscalers), then json.go (the encoding of events).
package timeline

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Options limit the content of a timeline.
type Options struct {
	From sim.Time // what ends before is left out
	To   sim.Time // what begins at or after it is left out; 0: nothing is
	// Request, if not nil, is the only request that is shown, with the passes of its workers while it is in the
	// cluster.
	Request *Choice
	Kinds   []string // of the workers of the first stage, where they differ
}

// Choice names a request by its id, or by its line in the trace file.
type Choice struct {
	ID   sim.RequestID
	Line int32 // 0: by id
}

// Counts are the numbers of shown items.
type Counts struct {
	Passes       int // forward passes; a run counts as many as it has
	PromptTokens int // computed
	OutputTokens int // gained
	Decisions    int // placements
}

// Writer writes a timeline. A Writer observes a replay; Close completes the file.
type Writer struct {
	out    encoder
	cut    Options
	router track
	stages [2][]worker
	lanes  []lane // by request
	counts Counts
	met    bool // the chosen request has arrived
}

// worker is the kept part of a worker.
type worker struct {
	track
	watched int   // chosen requests on the worker
	open    slice // of passes that are alike, not written yet

	// known and the counters after it are the last values that were written, if any.
	known bool
	shown counters
}

// counters holds the state after a pass.
type counters struct{ held, cached, running, waiting int }

// track holds the first parts of the events of a track.
type track struct{ slice, flow, blocks, requests string }

func newTrack(pid int64) track {
	id := `"pid":` + strconv.FormatInt(pid, 10) + `,"ts":`
	return track{
		slice:    ",\n{" + `"ph":"X","tid":1,` + id,
		flow:     ",\n{" + `"tid":1,"bp":"e",` + id,
		blocks:   ",\n{" + `"ph":"C","name":"KV blocks",` + id,
		requests: ",\n{" + `"ph":"C","name":"requests",` + id,
	}
}

// slice is a run of equal consecutive passes; passes is 0 if there is none.
type slice struct {
	from, to       sim.Time
	passes         int
	prompt, tokens int // of each of them
	admitted, lost int
	prefill        sim.Time
	after          counters
	detailed       bool
	received       bool // prompt tokens come with a KV cache that was handed over, and cost no time
}

// Processes of the trace: the router, the requests, the events of the cluster (marks.go), then the workers. Decode
// workers have a separate range.
const (
	pidRouter   = 1
	pidRequests = 2
	pidWorkers  = 100
	pidDecode   = 2_000_000
	tidPasses   = 1
)

// New begins a timeline on out.
func New(out io.Writer, cut Options) *Writer {
	if cut.To == 0 {
		cut.To = sim.Time(math.Inf(1))
	}
	w := &Writer{out: newEncoder(out), cut: cut, router: newTrack(pidRouter)}
	w.out.writeProcess(pidRouter, 0, "router")
	w.out.writeThread(pidRouter, tidPasses, "decisions")
	w.out.writeProcess(pidRequests, 1, "requests")
	return w
}

// Grow reserves memory for this number of requests.
func (w *Writer) Grow(requests int) {
	w.lanes = append(make([]lane, 0, len(w.lanes)+requests), w.lanes...)
}

// Close completes the trace. Close returns the first write error, or an error if the chosen request does not exist.
func (w *Writer) Close() error {
	switch c := w.cut.Request; {
	case c == nil || w.met:
	case c.Line > 0:
		return fmt.Errorf("no request from line %d, must be one of the %d requests of the run", c.Line, len(w.lanes))
	default:
		return fmt.Errorf("no request %d, must be one of the %d requests of the run", c.ID, len(w.lanes))
	}
	for _, all := range w.stages {
		for id := range all {
			w.writeSlice(&all[id])
		}
	}
	return w.out.closeFile()
}

// Counts returns the numbers of items shown so far.
func (w *Writer) Counts() Counts { return w.counts }

// Arrived opens the lane of q.
func (w *Writer) Arrived(q *sim.Request, at sim.Time) {
	l := lane{arrival: at, hidden: true}
	switch c := w.cut.Request; {
	case c == nil:
		l.hidden = false
	case c.Line > 0:
		l.hidden = q.Line != c.Line
	default:
		l.hidden = q.ID != c.ID
	}
	w.met = w.met || !l.hidden
	w.lanes = append(w.lanes, l)
}

// Routed shows a routing decision. From now on the passes of its request are shown.
func (w *Writer) Routed(stage scheduler.Role, at sim.Time, p *router.Placement) {
	l := &w.lanes[p.Request.ID]
	if l.hidden {
		return
	}
	w.workerOf(stage, p.Worker).watched++
	l.stageOf(stage).routed, l.local = at, p.Request.Local
	if !w.isShown(at, at) {
		return
	}
	w.counts.Decisions++
	b := w.out.beginSlice(&w.router, at, at)
	b = appendNumber(b, `,"name":"request `, int(p.Request.ID))
	b = appendNumber(append(b, " to "...), workerName(stage), int(p.Worker))
	b = appendNumber(b, `","args":{"request":`, int(p.Request.ID))
	b = appendNumber(b, `,"worker":`, int(p.Worker))
	b = appendNumber(b, `,"prompt_tokens":`, p.Request.InputTokens)
	if p.Blocks > 0 {
		b = appendNumber(b, `,"prompt_blocks":`, int(p.Blocks))
		b = appendNumber(b, `,"overlap_blocks":`, int(p.Overlap))
		b = appendFloat(b, `,"cost_blocks":`, p.Cost)
		if p.Second != router.None {
			b = appendNumber(b, `,"runner_up":`, int(p.Second))
			b = appendFloat(b, `,"runner_up_cost_blocks":`, p.SecondCost)
		}
	}
	w.out.endEvent(append(b, "}}"...))
	w.stepArrow(p.Request.ID, at, &w.router)
}

// Handoff shows the transfer of a KV cache.
func (w *Writer) Handoff(id sim.RequestID, from, to sim.Time) {
	l := &w.lanes[id]
	if l.hidden {
		return
	}
	w.writePhase(id, transfer, from, to)
	l.handed = true
}

// Pass shows a pass or a run of passes, and the counters after it.
func (w *Writer) Pass(stage scheduler.Role, id sim.WorkerID, p *scheduler.Pass) {
	k := w.workerOf(stage, id)
	if w.isShown(p.Start, p.End) && (w.cut.Request == nil || k.watched > 0) {
		w.counts.Passes += p.Count
		w.counts.PromptTokens += p.Count * p.PrefillTokens
		w.counts.OutputTokens += p.Count * p.Tokens
		if !k.open.continuesWith(p) {
			w.writeSlice(k)
		}
		k.open.addPass(p)
		k.open.received = stage == scheduler.Decode && (p.Detail == nil || p.Detail.PrefillEnd <= p.Start)
	}
	w.followRequests(stage, k, p)
}

// continuesWith reports whether p continues the slice: the same requests get one token each, and no other event
// occurs.
func (s *slice) continuesWith(p *scheduler.Pass) bool {
	return s.passes > 0 && s.to == p.Start && s.tokens == p.Tokens && s.isQuiet() &&
		p.PrefillTokens == 0 && p.Preempted == 0 && len(p.Admitted) == 0 && len(p.Marks) == 0
}

// isQuiet reports whether the first pass of a slice only generates tokens.
func (s *slice) isQuiet() bool { return s.prompt == 0 && s.admitted == 0 && s.lost == 0 }

// addPass begins the slice with p, or extends it.
func (s *slice) addPass(p *scheduler.Pass) {
	if s.passes == 0 {
		*s = slice{from: p.Start, prompt: p.PrefillTokens, tokens: p.Tokens, admitted: len(p.Admitted), lost: p.Preempted}
	}
	s.to = p.End
	s.passes += p.Count
	d := p.Detail
	if d == nil {
		return
	}
	s.prefill = (d.PrefillEnd - s.from).Max0()
	s.after, s.detailed = counters{d.Held, d.Cached, d.Running, d.Waiting}, true
	if s.prompt == 0 {
		s.prefill = 0
	}
}

// writeSlice writes the open slice of a worker, and the counters after it.
func (w *Writer) writeSlice(k *worker) {
	s := &k.open
	if s.passes == 0 {
		return
	}
	b := nameSlice(w.out.beginSlice(&k.track, s.from, s.to), s)
	b = appendNumber(b, `,"prompt_tokens":`, s.prompt)
	b = appendNumber(b, `,"tokens":`, s.tokens)
	if s.admitted > 0 {
		b = appendNumber(b, `,"admitted":`, s.admitted)
	}
	if s.lost > 0 {
		b = appendNumber(b, `,"preempted":`, s.lost)
	}
	if s.prefill > 0 {
		b = appendFloat(b, `,"prefill_ms":`, float64(s.prefill))
	}
	w.out.endEvent(append(b, "}}"...))
	w.writeCounters(k)
	s.passes = 0
}

// writeCounters writes the changed counters.
func (w *Writer) writeCounters(k *worker) {
	s := &k.open
	if !s.detailed {
		return
	}
	now, was := s.after, k.shown
	if !k.known || was.held != now.held || was.cached != now.cached {
		w.out.writeBlocks(&k.track, s.to, now.held, now.cached)
	}
	if !k.known || was.running != now.running || was.waiting != now.waiting {
		w.out.writeRequests(&k.track, s.to, now.running, now.waiting)
	}
	k.known, k.shown = true, now
}

// isShown reports whether the cut keeps a slice from one instant to another.
func (w *Writer) isShown(from, to sim.Time) bool { return to >= w.cut.From && from < w.cut.To }

// workerOf returns the state of a worker. On first use it writes the name of the track.
func (w *Writer) workerOf(stage scheduler.Role, id sim.WorkerID) *worker {
	all := &w.stages[stage.Stage()]
	for len(*all) <= int(id) {
		next := sim.WorkerID(len(*all))
		pid := pidOf(stage, next)
		name := workerName(stage) + strconv.Itoa(int(next))
		if kinds := w.cut.Kinds; stage == scheduler.Aggregated && len(kinds) > 0 {
			name += " (" + kinds[min(int(next), len(kinds)-1)] + ")"
		}
		w.out.writeProcess(pid, pid, name)
		w.out.writeThread(pid, tidPasses, "passes")
		*all = append(*all, worker{track: newTrack(pid)})
	}
	return &(*all)[id]
}

func pidOf(stage scheduler.Role, id sim.WorkerID) int64 {
	if stage == scheduler.Decode {
		return pidDecode + int64(id)
	}
	return pidWorkers + int64(id)
}

func workerName(stage scheduler.Role) string {
	return [...]string{"worker ", "prefill worker ", "decode worker "}[stage]
}
