package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/replay-llm/replay/tools/benchpeer/row"
)

// pair is a run of this program and the following run of the reference.
type pair struct{ ours, theirs outcome }

// measured contains all runs of a row.
type measured struct {
	row     row.Row
	peers   []program
	first   []outcome // first run of each peer, to find the fastest peers
	pairs   [][]pair  // pairs of each peer that is the fastest by some figure
	fastest [2]int    // indices of the fastest peers, by figure
}

// measureRow runs a row: every peer once, then this program and the fastest peers alternately.
func (c *comparison) measureRow(ctx context.Context, r row.Row) (*measured, error) {
	trace, err := c.tracePath(r.Source, r.Requests)
	if err != nil {
		return nil, err
	}
	args := r.Args(trace)
	m := &measured{
		row: r, peers: c.peers,
		first: make([]outcome, len(c.peers)), pairs: make([][]pair, len(c.peers)),
	}
	limit := c.timeout
	for i := len(c.peers) - 1; i >= 0; i-- { // the last peer is most likely the fastest
		p := c.peers[i].withTimeout(limit)
		if m.first[i], err = c.runOnce(ctx, &p, r.Title, args); err != nil {
			return nil, err
		}
		limit = min(limit, m.first[i].patience())
	}
	m.chooseFastest()
	if _, err := c.runOnce(ctx, &c.ours, r.Title, args); err != nil { // not counted: this run loads the files into memory
		return nil, err
	}
	for i := range c.peers {
		if !slices.Contains(m.fastest[:], i) {
			continue
		}
		for range c.pairs {
			p, err := c.runPair(ctx, m, i, args)
			if err != nil {
				return nil, err
			}
			m.pairs[i] = append(m.pairs[i], p)
		}
	}
	return m, nil
}

// hopeless is the minimum time limit of a release, if another release has finished.
const hopeless = time.Minute

// patience returns the time after which another release cannot be the fastest by any figure. The simulation of that
// release alone would then have taken three times the whole command. A run that did not finish sets no limit.
func (o *outcome) patience() time.Duration {
	if o.unfinished != "" {
		return math.MaxInt64
	}
	return max(hopeless, 3*o.took[command]+reading)
}

// runOnce runs a program once and prints its time and memory.
func (c *comparison) runOnce(ctx context.Context, p *program, title string, args []string) (outcome, error) {
	o, err := p.run(ctx, c.dir, args)
	if err != nil {
		return o, err
	}
	fmt.Fprintf(c.status, "%s: %s: simulation %s, command %s, %.0f MiB", title, p.name, formatTime(o.took[simulation]), formatTime(o.took[command]), o.peakMiB)
	if o.unfinished != "" {
		fmt.Fprintf(c.status, ", unfinished: %s", o.unfinished)
	}
	fmt.Fprintln(c.status)
	if p == &c.ours && o.unfinished != "" {
		return o, fmt.Errorf("%s: %s did not finish: %s", title, p.name, o.unfinished)
	}
	return o, nil
}

// runPair runs this program and peer i. A peer that did not finish its first run is not run again.
func (c *comparison) runPair(ctx context.Context, m *measured, i int, args []string) (pair, error) {
	ours, err := c.runOnce(ctx, &c.ours, m.row.Title, args)
	if err != nil || m.first[i].unfinished != "" {
		return pair{ours, m.first[i]}, err
	}
	theirs, err := c.runOnce(ctx, &c.peers[i], m.row.Title, args)
	return pair{ours, theirs}, err
}

// chooseFastest selects the fastest peer for each figure. The first of several equal peers wins.
func (m *measured) chooseFastest() {
	for f := range m.fastest {
		for i := range m.first {
			if m.first[i].isFaster(&m.first[m.fastest[f]], figure(f)) {
				m.fastest[f] = i
			}
		}
	}
}

// isFaster reports whether o is faster than other. A finished run is faster than an unfinished run.
func (o *outcome) isFaster(other *outcome, f figure) bool {
	if finished := o.unfinished == ""; finished != (other.unfinished == "") {
		return finished
	}
	return o.took[f] < other.took[f]
}

// tracePath returns a file with the given number of requests, and creates it if needed. If requests is 0, tracePath
// returns the unchanged trace.
func (c *comparison) tracePath(s row.Source, requests int) (string, error) {
	if s == row.Synthetic {
		return "", nil
	}
	path, err := s.Path()
	if err != nil || requests == 0 {
		return path, err
	}
	long := filepath.Join(c.dir, fmt.Sprintf("%v-%d.jsonl", s, requests))
	if _, err := os.Stat(long); err == nil {
		return long, nil
	}
	return long, tileFile(path, long, requests)
}
