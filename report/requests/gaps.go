package requests

import (
	"sort"

	"github.com/replay-llm/replay/internal/sliding"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// decoding finds the longest time between two tokens of each request that decodes on one worker. A request gets a
// token in every pass after its first token, except in passes that leave it out or in which it is preempted. The pass
// with its next token then has the complete time without a token, which is at least the duration of each pass in
// between. So the longest time is the maximum of the longest pass between first and last token, which is looked up at
// the end of the request, and the times that passes report.
type decoding struct {
	seen   *sliding.List[sight]
	inside int    // requests that decode on this worker
	passes int    // number of passes so far
	blind  bool   // the times of a pass could not be assigned to requests
	peaks  []peak // passes longer than all after them, longest first
}

// peak is a pass, by number, with its duration.
type peak struct {
	pass int
	gap  sim.Time
}

// interval is the decoding time of a request.
type interval struct {
	since   int      // first pass with a duration that can be a time between its tokens
	longest sim.Time // longest time seen so far; once the request has ended, of all
	inside  bool     // the request has its first token and not its last
	ended   bool
	resumed bool     // the request continues on another worker
	last    sim.Time // this is when it had its latest token
}

// longestKnown returns the longest time between two tokens of a request that has ended.
func (i *interval) longestKnown() (sim.Time, bool) { return i.longest, i.ended }

func (d *decoding) intervalOf(id sim.RequestID) *interval { return &d.seen.At(int(id)).tokens }

// addPass adds a pass or a run of passes.
func (d *decoding) addPass(p *scheduler.Pass) {
	longest := p.Gap
	for i := range p.Ends {
		longest = max(longest, p.GapOf(i))
	}
	d.pushLength(longest)
	d.resumeRequest(p)
	for i := range p.Marks {
		m := &p.Marks[i]
		d.resumeElsewhere(m, p.End)
		switch {
		case m.Last:
			d.leaveRequest(m.Request)
		case m.First:
			d.enterRequest(m.Request)
		}
	}
	d.passes++
	if d.inside == 0 {
		d.peaks = d.peaks[:0]
	}
}

// pushLength adds the duration of the current pass.
func (d *decoding) pushLength(gap sim.Time) {
	if d.inside == 0 {
		return
	}
	for len(d.peaks) > 0 && d.peaks[len(d.peaks)-1].gap <= gap {
		d.peaks = d.peaks[:len(d.peaks)-1]
	}
	d.peaks = append(d.peaks, peak{d.passes, gap})
}

// resumeRequest adds the times without a token of requests that got no token in the previous pass.
func (d *decoding) resumeRequest(p *scheduler.Pass) {
	if len(p.Gaps) == 0 {
		return
	}
	if p.Detail == nil || len(p.Detail.Resumed) != len(p.Gaps) {
		d.blind = true
		return
	}
	for k, id := range p.Detail.Resumed {
		i := d.intervalOf(id)
		i.longest = max(i.longest, p.Gaps[k])
	}
}

// resumeElsewhere adds the time without a token of a request that came with tokens from another worker. The request
// has got its next token.
func (d *decoding) resumeElsewhere(m *scheduler.Mark, at sim.Time) {
	i := d.intervalOf(m.Request)
	if !i.resumed || !m.First {
		return
	}
	i.longest, i.resumed = max(i.longest, at-i.last), false
	i.ended = m.Last && !d.blind
}

// enterRequest adds a request that got its first token in the current pass.
func (d *decoding) enterRequest(id sim.RequestID) {
	i := d.intervalOf(id)
	i.inside, i.since = true, d.passes+1
	d.inside++
}

// dropRequest ends the decoding of a request that leaves the worker before its last token.
func (d *decoding) dropRequest(i *interval) {
	i.inside = false
	d.inside--
	d.raiseLongest(i)
}

// raiseLongest applies the longest pass since the first token of a request on this worker.
func (d *decoding) raiseLongest(i *interval) {
	at := sort.Search(len(d.peaks), func(k int) bool { return d.peaks[k].pass >= i.since })
	if at < len(d.peaks) {
		i.longest = max(i.longest, d.peaks[at].gap)
	}
}

// leaveRequest ends the decoding of a request with the current pass.
func (d *decoding) leaveRequest(id sim.RequestID) {
	i := d.intervalOf(id)
	if !i.inside {
		return // its only token
	}
	d.dropRequest(i)
	i.ended = !d.blind
}
