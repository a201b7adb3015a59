package requests

import (
	"slices"
	"sort"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// decoding follows the requests that decode on one worker, to find the longest
// time between two tokens of each.
//
// A pass says how many requests gained a token in it and in the pass before, and
// not which: they are all that decode, as long as nobody is preempted or left
// out. A request's longest gap is then the longest pass since its first token,
// which is kept for all of them together. Where a pass leaves open whom it left
// out, the longest gaps of the requests there stay unknown.
type decoding struct {
	seen *[]sight

	steady      []sim.RequestID // gained a token in the latest pass
	interrupted []sim.RequestID // have gained one, but not in the latest pass
	unsure      bool            // which is which is not known

	passes int
	end    sim.Time // of the latest pass
	peaks  []peak   // passes longer than all after them, longest first
}

// peak is a pass, by number, and its length.
type peak struct {
	pass int
	gap  sim.Time
}

// interval is a request's time of decoding.
type interval struct {
	state     state
	place     int32 // in decoding.steady or decoding.interrupted
	unsure    bool
	displaced bool     // it lost its place and has not been admitted again
	since     int      // first pass whose gap is the request's
	latest    sim.Time // token, while interrupted
	later     sim.Time // perhaps the latest token instead; 0: no
	longest   sim.Time // gap up to since; negative: none
}

type state uint8

const (
	outside state = iota
	steady
	interrupted
)

// known is the longest gap.
func (i *interval) known() (sim.Time, bool) { return i.longest, !i.unsure && i.longest >= 0 }

func (d *decoding) of(id sim.RequestID) *interval { return &(*d.seen)[id].tokens }

// pass takes in a pass or a run of them.
func (d *decoding) pass(p *scheduler.Pass, lost []sim.RequestID) {
	for _, a := range p.Admitted {
		d.of(a.Request).displaced = false
	}
	if !d.unsure {
		d.advance(p, lost)
	}
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
	d.end = p.End
	if len(d.steady) == 0 && len(d.interrupted) == 0 {
		d.unsure, d.peaks = false, d.peaks[:0]
	}
}

// advance finds out who gained a token in p besides first ones.
func (d *decoding) advance(p *scheduler.Pass, lost []sim.RequestID) {
	for _, id := range lost {
		d.of(id).displaced = true
	}
	lost = d.decoders(lost)
	n, before := len(d.steady), len(d.interrupted)
	switch {
	case p.Decoding == n: // perhaps some of them lost their place after it
		d.push(p.Gap)
		d.interrupt(lost, p.End, d.passes+1)
	case p.Decoding == 0:
		d.interrupt(slices.Clone(d.steady), d.end, d.passes)
	case n-len(lost) <= p.Decoding && p.Decoding < n:
		d.interrupt(lost, d.end, d.passes)
		if p.Decoding > n-len(lost) { // some of those who lost their place had gained a token
			for _, id := range d.interrupted[before:] {
				d.of(id).later = p.End
			}
		}
		d.push(p.Gap)
	default:
		d.giveUp()
		return
	}
	d.resume(p)
}

// decoders are those of ids that are steady.
func (d *decoding) decoders(ids []sim.RequestID) []sim.RequestID {
	var all []sim.RequestID
	for _, id := range ids {
		if d.of(id).state == steady {
			all = append(all, id)
		}
	}
	return all
}

// push notes the length of the current pass.
func (d *decoding) push(gap sim.Time) {
	if len(d.steady) == 0 {
		return
	}
	for len(d.peaks) > 0 && d.peaks[len(d.peaks)-1].gap <= gap {
		d.peaks = d.peaks[:len(d.peaks)-1]
	}
	d.peaks = append(d.peaks, peak{d.passes, gap})
}

// settle takes into i the gaps of passes since i.since.
func (d *decoding) settle(i *interval) {
	at := sort.Search(len(d.peaks), func(k int) bool { return d.peaks[k].pass >= i.since })
	if at < len(d.peaks) {
		i.longest = max(i.longest, d.peaks[at].gap)
	}
}

// interrupt says that ids gained their latest token at the given instant and
// none in passes from the given one on.
func (d *decoding) interrupt(ids []sim.RequestID, latest sim.Time, from int) {
	for _, id := range ids {
		i := d.of(id)
		if i.since < from {
			d.settle(i)
		}
		d.remove(id)
		i.state, i.place = interrupted, int32(len(d.interrupted))
		i.latest, i.later = latest, 0
		d.interrupted = append(d.interrupted, id)
	}
}

// resume finds those who gained a token after having been interrupted. A gap
// tells when the request had its token before.
func (d *decoding) resume(p *scheduler.Pass) {
	gaps := slices.Clone(p.Gaps)
	slices.Sort(gaps)
	for len(gaps) > 0 {
		gap := gaps[0]
		n := 1
		for n < len(gaps) && gaps[n] == gap {
			n++
		}
		gaps = gaps[n:]
		ids := d.waitingFor(gap, p, n)
		if len(ids) != n {
			d.giveUp()
			return
		}
		for _, id := range ids {
			i := d.of(id)
			i.longest = max(i.longest, gap)
			if i.later > 0 && gap == (p.End-i.later).Max0() {
				i.longest = max(i.longest, i.later-i.latest)
			}
			d.remove(id)
			d.join(id)
		}
	}
}

// waitingFor are the interrupted requests that have a place and whose latest
// token was a gap before the end of p. When they are more than n, they are those
// whose tokens were computed first: only the last in a pass may be cut short.
func (d *decoding) waitingFor(gap sim.Time, p *scheduler.Pass, n int) []sim.RequestID {
	var all []sim.RequestID
	either := false // one of them may mean another gap
	for _, id := range d.interrupted {
		i := d.of(id)
		if i.displaced {
			continue
		}
		if (p.End-i.latest).Max0() == gap || i.later > 0 && (p.End-i.later).Max0() == gap {
			all = append(all, id)
			either = either || i.later > 0
		}
	}
	if len(all) <= n || p.Detail == nil || either {
		return all
	}
	var first []sim.RequestID
	for _, w := range p.Detail.Work {
		if len(first) < n && slices.Contains(all, w.Request) {
			first = append(first, w.Request)
		}
	}
	return first
}

// giveUp says that nobody knows any more who decodes and who waits.
func (d *decoding) giveUp() {
	d.unsure = true
	for _, ids := range [][]sim.RequestID{d.steady, d.interrupted} {
		for _, id := range ids {
			d.of(id).unsure = true
		}
	}
}

// enter takes in a request that gained its first token in the current pass.
func (d *decoding) enter(id sim.RequestID) {
	d.of(id).unsure = d.unsure
	d.join(id)
}

// join makes a request steady from the next pass on.
func (d *decoding) join(id sim.RequestID) {
	i := d.of(id)
	i.state, i.place, i.since = steady, int32(len(d.steady)), d.passes+1
	d.steady = append(d.steady, id)
}

// leave ends a request with the current pass.
func (d *decoding) leave(id sim.RequestID) {
	i := d.of(id)
	if i.state == outside {
		return // its only token
	}
	if i.state == steady && !i.unsure {
		d.settle(i)
	}
	d.remove(id)
	i.state = outside
}

// remove takes a request off its list.
func (d *decoding) remove(id sim.RequestID) {
	i := d.of(id)
	list := &d.steady
	if i.state == interrupted {
		list = &d.interrupted
	}
	last := len(*list) - 1
	moved := (*list)[last]
	(*list)[i.place] = moved
	d.of(moved).place = i.place
	*list = (*list)[:last]
}
