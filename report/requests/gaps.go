package requests

import (
	"sort"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// decoding follows the requests that decode on one worker, to find the longest
// time between two tokens of each.
//
// A request gains a token in every pass since its first but for those in which
// it is left out or has lost its place, and the pass that gives it its next token
// then says how long it was without one. That is at least as long as each of the
// passes in between. So the longest time of all is that of the longest pass from
// the first token to the last, which is looked up when the request ends, or one
// of those the passes tell.
type decoding struct {
	seen   *[]sight
	inside int    // requests that have their first token here and not their last
	passes int    // so far
	blind  bool   // a pass has not said whose times it told
	peaks  []peak // passes longer than all after them, longest first
}

// peak is a pass, by number, and its length.
type peak struct {
	pass int
	gap  sim.Time
}

// interval is a request's time of decoding.
type interval struct {
	since   int      // first pass whose length is a time between its tokens, perhaps
	longest sim.Time // time told so far; when it has ended, of all
	inside  bool     // it has its first token and not its last
	ended   bool
}

// known is the longest time between two tokens of a request that has ended.
func (i *interval) known() (sim.Time, bool) { return i.longest, i.ended }

func (d *decoding) of(id sim.RequestID) *interval { return &(*d.seen)[id].tokens }

// pass takes in a pass or a run of them.
func (d *decoding) pass(p *scheduler.Pass) {
	d.push(p.Gap)
	d.resume(p)
	for i := range p.Marks {
		m := &p.Marks[i]
		switch {
		case m.Last:
			d.leave(m.Request)
		case m.First:
			d.enter(m.Request)
		}
	}
	d.passes++
	if d.inside == 0 {
		d.peaks = d.peaks[:0]
	}
}

// push notes the length of the current pass.
func (d *decoding) push(gap sim.Time) {
	if d.inside == 0 {
		return
	}
	for len(d.peaks) > 0 && d.peaks[len(d.peaks)-1].gap <= gap {
		d.peaks = d.peaks[:len(d.peaks)-1]
	}
	d.peaks = append(d.peaks, peak{d.passes, gap})
}

// resume takes in for how long those were without a token that had none in the
// pass before.
func (d *decoding) resume(p *scheduler.Pass) {
	if len(p.Gaps) == 0 {
		return
	}
	if p.Detail == nil || len(p.Detail.Resumed) != len(p.Gaps) {
		d.blind = true
		return
	}
	for k, id := range p.Detail.Resumed {
		i := d.of(id)
		i.longest = max(i.longest, p.Gaps[k])
	}
}

// enter takes in a request that gained its first token in the current pass.
func (d *decoding) enter(id sim.RequestID) {
	i := d.of(id)
	i.inside, i.since = true, d.passes+1
	d.inside++
}

// leave ends a request with the current pass.
func (d *decoding) leave(id sim.RequestID) {
	i := d.of(id)
	if !i.inside {
		return // its only token
	}
	i.inside = false
	d.inside--
	at := sort.Search(len(d.peaks), func(k int) bool { return d.peaks[k].pass >= i.since })
	if at < len(d.peaks) {
		i.longest = max(i.longest, d.peaks[at].gap)
	}
	i.ended = !d.blind
}
