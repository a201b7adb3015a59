package collector

import (
	"math"

	"github.com/replay-llm/replay/sim"
)

// Stretches is the basis of the verdict on the load. Stretches has the waits of requests that were not shed, in
// stretches of equal numbers of requests in order of arrival.
type Stretches struct {
	Requests    int
	Waits       []float64 // mean time from arrival to admission, in ms; requests that were not admitted wait to the end
	First, Last sim.Time  // arrivals
	Served      int       // number of counted requests, for the sums of
	Service     float64   // times from admission to the last token
	Latency     float64   // times from arrival to the last token
}

// stretches is the sums of folded requests for Stretches.
type stretches struct {
	Stretches
	end    sim.Time // latest token or arrival
	spool  *spool   // the wait of each request, or the arrival with the sign bit set; nil: blocks are used
	blocks []waiting
	size   int // requests per block; 0: 1
}

// waiting is sums over the requests of a block.
type waiting struct {
	waits    float64 // waits of admitted requests
	never    float64 // number of requests that were not admitted
	arrivals float64 // arrivals of requests that were not admitted
}

// mostBlocks is the number of blocks at which pairs of blocks are joined. mostBlocks must be even.
const mostBlocks = 1 << 15

// add adds a request with its outcome.
func (s *stretches) add(r *Record, how Outcome) {
	if neverWaited(r, how) {
		return
	}
	if s.Requests == 0 {
		s.First = r.Arrival
	}
	s.Last, s.end = r.Arrival, max(s.end, r.Last, r.Arrival)
	if r.Counted() {
		s.Service += float64(r.Last - r.Admit)
		s.Latency += float64(r.E2E())
		s.Served++
	}
	if s.spool != nil {
		s.spool.add(wordOf(r))
	} else {
		s.addToBlock(r)
	}
	s.Requests++
}

func wordOf(r *Record) uint64 {
	if r.Admitted() {
		return math.Float64bits(float64((r.Admit - r.Arrival).Max0()))
	}
	return math.Float64bits(math.Copysign(float64(r.Arrival), -1))
}

func (s *stretches) addToBlock(r *Record) {
	if s.size == 0 {
		s.size = 1
	}
	if s.Requests == mostBlocks*s.size {
		half := s.blocks[:0]
		for i := 0; i < mostBlocks; i += 2 {
			a, b := s.blocks[i], s.blocks[i+1]
			half = append(half, waiting{a.waits + b.waits, a.never + b.never, a.arrivals + b.arrivals})
		}
		s.blocks, s.size = half, 2*s.size
	}
	if s.Requests%s.size == 0 {
		s.blocks = append(s.blocks, waiting{})
	}
	b := &s.blocks[len(s.blocks)-1]
	if r.Admitted() {
		b.waits += float64((r.Admit - r.Arrival).Max0())
	} else {
		b.never++
		b.arrivals += float64(r.Arrival)
	}
}

// Stretches returns the folded requests in count stretches. With a spool the result equals that of records. With
// blocks the result is approximate, because a block may be part of two stretches.
func (c *Collector) Stretches(count int) Stretches {
	s := &c.fold.stretches
	out := s.Stretches
	out.Waits = make([]float64, count)
	if s.Requests == 0 {
		return out
	}
	if s.spool == nil {
		s.divideBlocks(out.Waits)
		return out
	}
	w, at := 0, 0
	s.spool.each(func(words []int64) {
		for _, word := range words {
			for at >= s.Requests*(w+1)/count {
				w++
			}
			wait := s.end - sim.Time(math.Float64frombits(uint64(word)&^(1<<63)))
			if word >= 0 {
				wait = sim.Time(math.Float64frombits(uint64(word)))
			}
			out.Waits[w] += float64(wait) / float64(s.Requests*(w+1)/count-s.Requests*w/count)
			at++
		}
	})
	return out
}

// divideBlocks adds the mean waits of blocks to the stretches.
func (s *stretches) divideBlocks(waits []float64) {
	count := len(waits)
	for w := range waits {
		from, to := s.Requests*w/count, s.Requests*(w+1)/count
		for i := from / s.size; i*s.size < to; i++ {
			b := &s.blocks[i]
			begin, end := i*s.size, min((i+1)*s.size, s.Requests)
			inside := min(end, to) - max(begin, from)
			total := b.waits + float64(b.never*float64(s.end)) - b.arrivals
			if inside < end-begin {
				total *= float64(inside) / float64(end-begin)
			}
			waits[w] += total / float64(to-from)
		}
	}
}
