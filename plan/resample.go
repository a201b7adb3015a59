package plan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/internal/stable"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/sim"
)

// Resampler generates workloads that could have been recorded as well (a bootstrap). A resample has as many sessions
// as the workload, drawn with replacement, in order. The gaps between arrivals are also drawn with replacement, in
// stretches, so that bursts are preserved.
//
// A session keeps its turns. If a session is drawn again, the copy gets new hash ids for unshared blocks. The copy
// shares only prefixes that the session shares with other sessions.
type Resampler struct {
	w       *loadgen.Workload
	order   []int32         // sessions in order of arrival
	private map[uint64]bool // ids of one session only
	top     uint64          // largest hash id
	seed    uint64
}

// NewResampler prepares resamples of w, which are drawn with seed.
func NewResampler(w *loadgen.Workload, seed uint64) *Resampler {
	r := &Resampler{w: w, seed: seed, private: map[uint64]bool{}}
	owner := map[uint64]int32{}
	for i := range w.Turns {
		t := &w.Turns[i]
		for _, id := range t.IDs {
			r.top = max(r.top, id)
			first, seen := owner[id]
			if !seen {
				owner[id], r.private[id] = t.Session, true
			} else if first != t.Session {
				delete(r.private, id)
			}
		}
	}
	r.order = make([]int32, len(w.Sessions))
	for i := range r.order {
		r.order[i] = int32(i)
	}
	stable.Sort(r.order, func(a, b int32) int { return cmp.Compare(w.Sessions[a].Arrival, w.Sessions[b].Arrival) })
	return r
}

// Sample returns the k-th resample, k ≥ 1; the 0-th is the workload itself.
func (r *Resampler) Sample(k int) *loadgen.Workload {
	if k == 0 {
		return r.w
	}
	rand := sim.NewRand(r.seed, "resample "+strconv.Itoa(k))
	drawn := make([]int, len(r.order)) // positions in order
	for i := range drawn {
		drawn[i] = rand.IntN(len(drawn))
	}
	slices.Sort(drawn)
	starts := r.drawStarts(rand)
	o := *r.w
	o.Sessions = make([]loadgen.Session, 0, len(drawn))
	o.Turns = make([]loadgen.Turn, 0, len(r.w.Turns))
	o.Priorities, o.ClassesOf = nil, nil
	if r.w.Graph != nil {
		o.Graph = &loadgen.Graph{First: []int32{0}}
	}
	fresh := copies{next: r.top, of: r.private}
	for i, place := range drawn {
		again := i > 0 && drawn[i-1] == place && r.top < math.MaxUint64/2
		r.addSession(&o, r.order[place], again, &fresh)
		o.Sessions[i].Arrival = starts[i]
		if o.Graph != nil {
			r.addWaits(&o, r.order[place])
		}
	}
	return &o
}

// addWaits adds the waits of the turns of o's last session, which is a copy of a task.
func (r *Resampler) addWaits(o *loadgen.Workload, task int32) {
	s, copied := &r.w.Sessions[task], &o.Sessions[len(o.Sessions)-1]
	for turn := s.First; turn >= 0; turn = r.w.Turns[turn].Next {
		for _, wait := range r.w.Graph.WaitsOf(turn) {
			wait.For = copied.First + r.w.Turns[wait.For].Index
			o.Graph.Waits = append(o.Graph.Waits, wait)
		}
		o.Graph.First = append(o.Graph.First, int32(len(o.Graph.Waits)))
		o.Graph.Arrival = append(o.Graph.Arrival, copied.Arrival+(r.w.Graph.Arrival[turn]-s.Arrival))
	}
}

// drawStarts returns arrival times. drawStarts draws the gaps of the workload in stretches of about the square root
// of their number. A workload with equal gaps is synthetic, not recorded: its gaps are drawn from an exponential
// distribution with the same mean.
func (r *Resampler) drawStarts(rand *rand.Rand) []sim.Time {
	at := func(i int) sim.Time { return r.w.Sessions[r.order[i]].Arrival }
	n := len(r.order)
	starts := make([]sim.Time, n)
	if n > 0 {
		starts[0] = at(0)
	}
	if mean, even := r.evenGap(); even {
		for i := 1; i < n; i++ {
			starts[i] = starts[i-1] + mean*sim.Time(math.Round(1e6*rand.ExpFloat64())/1e6) // rounded, so that the result is the same on every machine
		}
		return starts
	}
	stretch := max(1, int(math.Sqrt(float64(n))))
	from := 0
	for i := 1; i < n; i++ {
		if (i-1)%stretch == 0 {
			from = rand.IntN(n - 1)
		}
		gap := (from + (i-1)%stretch) % (n - 1)
		starts[i] = starts[i-1] + (at(gap+1) - at(gap))
	}
	return starts
}

// evenGap returns the mean gap between arrivals. even reports whether there are at least two gaps, all equal and
// above 0.
func (r *Resampler) evenGap() (mean sim.Time, even bool) {
	at := func(i int) sim.Time { return r.w.Sessions[r.order[i]].Arrival }
	n := len(r.order)
	if n < 3 {
		return 0, false
	}
	mean = (at(n-1) - at(0)) / sim.Time(n-1)
	for i := 1; i < n; i++ {
		if gap := at(i) - at(i-1); math.Abs(float64(gap-mean)) > 1e-6*float64(mean) {
			return 0, false
		}
	}
	return mean, mean > 0
}

// addSession appends a session to o.
func (r *Resampler) addSession(o *loadgen.Workload, session int32, again bool, fresh *copies) {
	s := r.w.Sessions[session]
	turn := s.First
	s.First = int32(len(o.Turns))
	fresh.names = nil
	for n := range s.Turns {
		t := r.w.Turns[turn]
		if r.w.Priorities != nil {
			o.Priorities = append(o.Priorities, r.w.Priorities[turn])
		}
		if r.w.ClassesOf != nil {
			o.ClassesOf = append(o.ClassesOf, r.w.ClassesOf[turn])
		}
		turn = t.Next
		t.Session = int32(len(o.Sessions))
		if t.Next = -1; n+1 < s.Turns {
			t.Next = int32(len(o.Turns)) + 1
		}
		if again {
			t.IDs = fresh.rename(t.IDs)
		}
		o.Turns = append(o.Turns, t)
	}
	o.Sessions = append(o.Sessions, s)
}

// copies renames the private ids of a session.
type copies struct {
	of    map[uint64]bool
	next  uint64            // last used id
	names map[uint64]uint64 // of the session at hand
}

func (c *copies) rename(ids []uint64) []uint64 {
	out := slices.Clone(ids)
	for i, id := range out {
		if !c.of[id] {
			continue
		}
		name, ok := c.names[id]
		if !ok {
			if c.names == nil {
				c.names = map[uint64]uint64{}
			}
			c.next++
			name = c.next
			c.names[id] = name
		}
		out[i] = name
	}
	return out
}
