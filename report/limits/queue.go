package limits

import (
	"sort"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// reason is a reason why requests wait in the queue of an engine.
type reason uint8

const (
	forPass   reason = iota // the end of the pass that runs when they come
	forSeat                 // the maximum number of requests runs
	forBlocks               // no KV blocks are free
	forBudget               // the token budget of the pass is used up
	reasons
)

// key returns the name of a reason in files.
func (r reason) key() string {
	return [...]string{"queue_pass", "queue_seats", "queue_kv_blocks", "queue_token_budget"}[r]
}

// String returns the name of a reason for texts.
func (r reason) String() string {
	return [...]string{"queue for the pass in progress", "queue for a seat", "queue for KV blocks", "queue for the token budget of a pass"}[r]
}

// reasonOf returns the reason why requests in the queue of an engine were not admitted to a pass, forPass if there is
// none.
func reasonOf(e *engineargs.PassLimits, p *scheduler.Pass) reason {
	d := p.Detail
	if d == nil || d.Waiting == 0 {
		return forPass
	}
	running, tokens := d.Running, 0
	for i := range p.Marks {
		if p.Marks[i].Last { // the request has ended, and had its seat when the pass was planned
			running++
		}
	}
	for i := range d.Work {
		tokens += d.Work[i].Prompt + d.Work[i].Recomputed + e.Loose
	}
	if e.Decodes {
		tokens += p.Decoding
	}
	switch {
	case e.Seats > 0 && running >= e.Seats:
		return forSeat
	case e.Tokens > 0 && tokens >= e.Tokens && len(d.Work) > 0:
		return forBudget
	}
	return forBlocks
}

// line holds the passes of a worker, in order of time.
type line struct {
	starts []sim.Time
	sums   [][reasons]sim.Time // up to the end of each pass
}

// addPass adds a pass, or a run of passes, with the reason for which queued requests waited.
func (l *line) addPass(p *scheduler.Pass, r reason) {
	var sum [reasons]sim.Time
	if n := len(l.sums); n > 0 {
		sum = l.sums[n-1]
	}
	sum[r] += p.End - p.Start
	l.starts, l.sums = append(l.starts, p.Start), append(l.sums, sum)
}

// between returns the time of the passes that begin within a time span, by reason. With ahead, the passes must also
// be planned within it.
func (l *line) between(from, to sim.Time, ahead bool) (by [reasons]sim.Time) {
	first := sort.Search(len(l.starts), func(i int) bool { return l.starts[i] >= from })
	if ahead && first > 0 {
		first++ // the first pass was planned at the begin of the pass before it
	}
	last := sort.Search(len(l.starts), func(i int) bool { return l.starts[i] >= to })
	if first >= last {
		return by
	}
	by = l.sums[last-1]
	if first > 0 {
		for r := range by {
			by[r] -= l.sums[first-1][r]
		}
	}
	return by
}

// waits holds the queueing time of a request by reason, in ms.
type waits [reasons]float64

// add adds the wait from a time to the admission. ahead reports whether the engine plans passes ahead.
func (w *waits) add(l *line, from, to sim.Time, ahead bool) {
	by := l.between(from, to, ahead)
	rest := (to - from).Max0()
	for r := forSeat; r < reasons; r++ {
		ms := min(by[r], rest)
		w[r] += float64(ms)
		rest -= ms
	}
	w[forPass] += float64(rest)
}

// addTo divides a queueing time of ms among causes, in proportion to the waits.
func (w *waits) addTo(sums *[]Cause, ms float64) {
	all := 0.0
	for _, x := range w {
		all += x
	}
	if all == 0 {
		addCause(sums, forPass.key(), forPass.String(), ms)
		return
	}
	for r := range reasons {
		if w[r] > 0 {
			addCause(sums, r.key(), r.String(), ms*w[r]/all)
		}
	}
}
