package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/replay-llm/replay/tools/benchpeer/row"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// pair is one run of ours and the run of the reference after it.
type pair struct{ ours, theirs outcome }

// measured is everything that was run for a row.
type measured struct {
	row   row.Row
	peers []program
	first []outcome // of each peer, once, to find the fastest
	pairs [][]pair  // of each peer that is the fastest in something
	// The fastest peers, by the simulation and by the whole command.
	simulation, command int
}

// measureRow runs a row: every peer once, then ours and the fastest peers in turn.
func (b *bench) measureRow(ctx context.Context, r row.Row) (*measured, error) {
	trace, err := b.tracePath(r.Source, r.Requests)
	if err != nil {
		return nil, err
	}
	args := r.Args(trace)
	m := &measured{
		row: r, peers: b.peers,
		first: make([]outcome, len(b.peers)), pairs: make([][]pair, len(b.peers)),
	}
	limit := b.timeout
	for i := len(b.peers) - 1; i >= 0; i-- { // the last named is most likely the fastest
		p := b.peers[i].withTimeout(limit)
		if m.first[i], err = b.runOnce(ctx, &p, &r, args); err != nil {
			return nil, err
		}
		limit = min(limit, m.first[i].patience())
	}
	m.chooseFastest()
	if _, err := b.runOnce(ctx, &b.ours, &r, args); err != nil { // not counted: files get into memory
		return nil, err
	}
	for i := range b.peers {
		if i != m.simulation && i != m.command {
			continue
		}
		for range b.pairs {
			p, err := b.runPair(ctx, m, i, args)
			if err != nil {
				return nil, err
			}
			m.pairs[i] = append(m.pairs[i], p)
		}
	}
	return m, nil
}

// hopeless is the least time after which a release that is not done is given up
// as slower than one that is.
const hopeless = time.Minute

// patience returns the time after which another release can no longer be the fastest in
// anything: it would have taken three times the whole command in its simulation
// alone. That of a run which did not finish says nothing.
func (o *outcome) patience() time.Duration {
	if o.unfinished != "" {
		return math.MaxInt64
	}
	return max(hopeless, 3*o.command+reading)
}

// runOnce runs a program once and prints what it took.
func (b *bench) runOnce(ctx context.Context, p *program, r *row.Row, args []string) (outcome, error) {
	o, err := p.run(ctx, &b.place, args)
	if err != nil {
		return o, err
	}
	fmt.Fprintf(b.status, "%s: %s: simulation %s, command %s, %.0f MiB", r.Title, p.name, formatTime(o.simulation), formatTime(o.command), o.peakMiB)
	if o.unfinished != "" {
		fmt.Fprintf(b.status, ", unfinished: %s", o.unfinished)
	}
	fmt.Fprintln(b.status)
	if p == &b.ours && o.unfinished != "" {
		return o, fmt.Errorf("%s: %s did not finish: %s", r.Title, p.name, o.unfinished)
	}
	return o, nil
}

// runPair runs ours and peer i. A peer that did not finish alone is not run again.
func (b *bench) runPair(ctx context.Context, m *measured, i int, args []string) (pair, error) {
	ours, err := b.runOnce(ctx, &b.ours, &m.row, args)
	if err != nil || m.first[i].unfinished != "" {
		return pair{ours, m.first[i]}, err
	}
	theirs, err := b.runOnce(ctx, &b.peers[i], &m.row, args)
	return pair{ours, theirs}, err
}

// chooseFastest finds the fastest peers. One that finished is faster than one that did
// not; of equals the first.
func (m *measured) chooseFastest() {
	fastest := func(time func(*outcome) time.Duration) int {
		best := 0
		for i := range m.first {
			a, o := &m.first[i], &m.first[best]
			switch {
			case (a.unfinished == "") != (o.unfinished == ""):
				if a.unfinished == "" {
					best = i
				}
			case time(a) < time(o):
				best = i
			}
		}
		return best
	}
	m.simulation = fastest(func(o *outcome) time.Duration { return o.simulation })
	m.command = fastest(func(o *outcome) time.Duration { return o.command })
}

// ratio is how many times more something of the reference is.
type ratio struct {
	median, least, most float64
	atLeast             bool // some run of the reference did not finish
}

// compareWith compares the pairs with peer i.
func (m *measured) compareWith(i int, of func(*outcome) float64) ratio {
	var all []float64
	var r ratio
	for _, p := range m.pairs[i] {
		all = append(all, of(&p.theirs)/of(&p.ours))
		r.atLeast = r.atLeast || p.theirs.unfinished != ""
	}
	r.median, r.least, r.most = stopwatch.Median(all), slices.Min(all), slices.Max(all)
	return r
}

// ourMedian returns the median of all runs of ours that were counted.
func (m *measured) ourMedian(of func(*outcome) float64) float64 {
	var all []float64
	for _, pairs := range m.pairs {
		for _, p := range pairs {
			all = append(all, of(&p.ours))
		}
	}
	return stopwatch.Median(all)
}

// peaks returns the most memory that a run of ours took, and the least that a peer
// takes in the median of its runs. Peers that did not finish count only when
// none did: they might have taken more.
func (m *measured) peaks() (ours, theirs float64, atLeast bool) {
	atLeast = m.first[m.command].unfinished != "" // the fastest finished if any did
	for i := range m.first {
		runs := []float64{m.first[i].peakMiB}
		for _, p := range m.pairs[i] {
			ours = max(ours, p.ours.peakMiB)
			runs = append(runs, p.theirs.peakMiB)
		}
		if !atLeast && m.first[i].unfinished != "" {
			continue
		}
		if peak := stopwatch.Median(runs); theirs == 0 || peak < theirs {
			theirs = peak
		}
	}
	return ours, theirs, atLeast
}
