package router

import (
	"math/bits"
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Sparse returns the overlaps and the active blocks of the request, and the candidates by load, for a policy with
// Needs.Sparse. Sparse returns nil if the policy must read the columns. The policy must read columns with up to 64
// workers, or if it receives fewer facts than are kept.
func (c *Candidates) Sparse() (overlap, active *Sparse, by *Ladder) {
	if c.ladder == nil {
		return nil, nil, nil
	}
	return c.ladder.overlap, c.ladder.active, c.ladder
}

// Ladder is the candidates by load. The load of a candidate is the blocks of its requests and the prompt tokens to
// compute, in blocks. The first rung has the idle candidates.
type Ladder struct {
	overlap, active *Sparse
	blockTokens     int64
	width           int64    // blocks of load per rung
	words           int      // words per set of workers, with a bit per worker
	sets            []uint64 // by rung, then by worker / 64
	count           [rungs]int32
	some            [rungs / 64]uint64 // by rung: bit is set if the rung has workers
	at              []int16            // by worker: index of its rung, -1 if the worker is no candidate
}

// rungs is the number of rungs of a Ladder. The last rung has all larger loads.
const rungs = 2048

// Next returns the first rung with workers, starting at rung; -1 if there is none.
func (l *Ladder) Next(rung int) int {
	if rung >= rungs {
		return -1
	}
	word := rung / 64
	x := l.some[word] >> (rung % 64) << (rung % 64)
	for ; x == 0; x = l.some[word] {
		if word++; word == len(l.some) {
			return -1
		}
	}
	return 64*word + bits.TrailingZeros64(x)
}

// Least returns a lower bound of the load of each worker on a rung, in blocks.
func (l *Ladder) Least(rung int) int64 { return int64(max(rung-1, 0)) * l.width }

// Workers returns the workers on a rung, as a set with a bit per worker.
func (l *Ladder) Workers(rung int) []uint64 { return l.sets[rung*l.words:][:l.words] }

// Has reports whether a worker is a candidate.
func (l *Ladder) Has(w sim.WorkerID) bool { return l.at[w] >= 0 }

// makeLadder creates the Ladder if the policy can read it.
func (d *Dispatcher) makeLadder() {
	d.seen.ladder = nil
	d.sparse = d.needs.Sparse && d.overlap.many && d.admission == nil && d.workers.names == nil && d.view() == &d.seen && d.blockTokens > 0
	if !d.sparse {
		return
	}
	l := &Ladder{
		overlap: &d.overlap.Sparse, active: &d.active.Sparse, blockTokens: d.blockTokens, width: max(1, 64/d.blockTokens),
		words: (d.workers.known + 63) / 64, at: slices.Repeat([]int16{-1}, d.workers.known),
	}
	l.sets = make([]uint64, rungs*l.words)
	for _, w := range d.workers.ids {
		l.put(w, l.rungOf(&d.seen, w))
	}
	d.seen.ladder = l
}

// rungOf returns the rung for the load of a worker.
func (l *Ladder) rungOf(c *Candidates, w sim.WorkerID) int16 {
	load := c.Blocks[w]
	if tokens := c.Tokens[w]; tokens > 0 {
		load += tokens / l.blockTokens
	} else if load == 0 {
		return 0
	}
	return int16(1 + min(load/l.width, rungs-2))
}

func (l *Ladder) put(w sim.WorkerID, rung int16) {
	l.at[w] = rung
	l.Workers(int(rung))[uint32(w)/64] |= 1 << (uint32(w) % 64)
	if l.count[rung]++; l.count[rung] == 1 {
		l.some[rung/64] |= 1 << (rung % 64)
	}
}

func (l *Ladder) remove(w sim.WorkerID) {
	rung := l.at[w]
	l.at[w] = -1
	l.Workers(int(rung))[uint32(w)/64] &^= 1 << (uint32(w) % 64)
	if l.count[rung]--; l.count[rung] == 0 {
		l.some[rung/64] &^= 1 << (rung % 64)
	}
}

// noteLoad moves a worker to its rung after a change of the tokens or blocks that the policy sees.
func (c *Candidates) noteLoad(w sim.WorkerID) {
	l := c.ladder
	if l == nil || l.at[w] < 0 {
		return
	}
	if rung := l.rungOf(c, w); rung != l.at[w] {
		l.remove(w)
		l.put(w, rung)
	}
}
