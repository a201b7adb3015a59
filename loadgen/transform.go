package loadgen

import (
	"fmt"
	"math"
	"strconv"

	"github.com/replay-llm/replay/sim"
)

// The transforms below leave their workload as it is and return another one,
// which may share memory with it.

// RescaleStarts moves the starts of sessions into a span of d; a span of 0
// becomes 0. Sessions without a start keep none.
func (w *Workload) RescaleStarts(d sim.Time) (*Workload, error) {
	if !finite(d) || d < 0 {
		return nil, fmt.Errorf("span is %v ms, want finite and >= 0", float64(d))
	}
	from, to, _ := w.starts()
	return w.mapTimes(func(at sim.Time) sim.Time {
		if to == from {
			return 0
		}
		return sim.Time(float64(at-from)*float64(d)) / (to - from)
	}, func(delay sim.Time) sim.Time { return delay }), nil
}

// RescaleReady scales starts and delays together, so that the last turn of all,
// were every turn done at once, becomes ready at d.
func (w *Workload) RescaleReady(d sim.Time) (*Workload, error) {
	if !finite(d) || d < 0 {
		return nil, fmt.Errorf("span is %v ms, want finite and >= 0", float64(d))
	}
	from, _, last := w.starts()
	k := d / max(last-from, 1.0)
	return w.mapTimes(
		func(at sim.Time) sim.Time { return sim.Time(float64(at-from) * float64(k)) },
		func(delay sim.Time) sim.Time { return sim.Time(float64(delay) * float64(k)) },
	), nil
}

// starts returns the first and the last start of a session, and the latest
// start plus the session's delays.
func (w *Workload) starts() (from, to, last sim.Time) {
	seen := false
	for i := range w.Sessions {
		s := &w.Sessions[i]
		if s.HasArrival {
			if !seen {
				from, to, seen = s.Arrival, s.Arrival, true
			}
			from, to = min(from, s.Arrival), max(to, s.Arrival)
		}
		ready := s.Arrival
		for n := w.Turns[s.First].Next; n >= 0; n = w.Turns[n].Next {
			ready += w.Turns[n].Delay
		}
		if i == 0 || ready > last {
			last = ready
		}
	}
	return from, to, last
}

// mapTimes is w with other starts and other delays after first turns.
func (w *Workload) mapTimes(start, delay func(sim.Time) sim.Time) *Workload {
	o := *w
	o.Sessions = append([]Session(nil), w.Sessions...)
	o.Turns = append([]Turn(nil), w.Turns...)
	for i := range o.Sessions {
		if s := &o.Sessions[i]; s.HasArrival {
			s.Arrival = start(s.Arrival)
		}
	}
	for i := range o.Turns {
		if t := &o.Turns[i]; t.Index > 0 {
			t.Delay = delay(t.Delay)
		}
	}
	return &o
}

// Deepen makes every prompt factor times as long, and every hash id into factor
// ids, so that prompts share as much as before.
func (w *Workload) Deepen(factor int) (*Workload, error) {
	if factor < 1 {
		return nil, fmt.Errorf("prefix depth factor is %d, want at least 1", factor)
	}
	if n := w.countIDs(); n > maxIDs/factor {
		return nil, fmt.Errorf("%s: %d hash ids times %d, want at most %d", w.Name, n, factor, maxIDs)
	}
	for i := range w.Turns {
		if n := w.Turns[i].Input; n > math.MaxInt32/factor {
			return nil, w.complain(int32(i), "input_length %d times %d, want at most %d", n, factor, math.MaxInt32)
		}
	}
	o := *w
	o.Turns = append([]Turn(nil), w.Turns...)
	ids := make([]uint64, 0, factor*w.countIDs())
	for i := range o.Turns {
		t := &o.Turns[i]
		t.Input *= factor
		from := len(ids)
		for _, id := range t.IDs {
			if id > (math.MaxUint64-uint64(factor)+1)/uint64(factor) {
				return nil, w.complain(int32(i), "hash id %d times %d does not fit 64 bits", id, factor)
			}
			for k := range uint64(factor) {
				ids = append(ids, id*uint64(factor)+k)
			}
		}
		t.IDs = ids[from:len(ids):len(ids)]
	}
	return &o, nil
}

func (w *Workload) countIDs() int {
	n := 0
	for i := range w.Turns {
		n += len(w.Turns[i].IDs)
	}
	return n
}

// Copies is w several times over, at the same times but with hash ids of its
// own for each copy.
func (w *Workload) Copies(count int) (*Workload, error) {
	most := min(math.MaxInt32/len(w.Turns), maxIDs/max(w.countIDs(), 1))
	if count < 1 || count > most {
		return nil, fmt.Errorf("copies are %d, want 1 to %d", count, most)
	}
	top := w.topID()
	if count > 1 && top > math.MaxUint64/uint64(count)-1 {
		return nil, fmt.Errorf("%s: %d copies of hash ids up to %d do not fit 64 bits", w.Name, count, top)
	}
	space := top + 1
	o := *w
	o.Sessions = make([]Session, 0, count*len(w.Sessions))
	o.Turns = make([]Turn, 0, count*len(w.Turns))
	ids := make([]uint64, 0, count*w.countIDs())
	for c := range count {
		session, turn := int32(len(o.Sessions)), int32(len(o.Turns))
		for i, s := range w.Sessions {
			s.ID, s.Automatic = w.SessionID(i)+":copy_"+strconv.Itoa(c), false
			s.First += turn
			o.Sessions = append(o.Sessions, s)
		}
		for _, t := range w.Turns {
			from := len(ids)
			for _, id := range t.IDs {
				ids = append(ids, id+uint64(c)*space)
			}
			t.IDs = ids[from:len(ids):len(ids)]
			t.Session += session
			if t.Next >= 0 {
				t.Next += turn
			}
			o.Turns = append(o.Turns, t)
		}
	}
	return &o, nil
}

// topID is the largest hash id, 0 without any.
func (w *Workload) topID() (top uint64) {
	for i := range w.Turns {
		for _, id := range w.Turns[i].IDs {
			top = max(top, id)
		}
	}
	return top
}

// Partition deals the sessions of w to parts workloads in turn. A part may get
// none.
func (w *Workload) Partition(parts int) ([]*Workload, error) {
	if parts < 1 {
		return nil, fmt.Errorf("partitions are %d, want at least 1", parts)
	}
	out := make([]*Workload, parts)
	for p := range out {
		o := *w
		o.Sessions, o.Turns = nil, nil
		out[p] = &o
	}
	place := make([]int32, len(w.Turns)) // of each turn in its part
	for i := range w.Turns {
		t := w.Turns[i]
		o := out[int(t.Session)%parts]
		place[i] = int32(len(o.Turns))
		t.Session /= int32(parts)
		o.Turns = append(o.Turns, t)
	}
	for i, s := range w.Sessions {
		o := out[i%parts]
		s.ID, s.Automatic = w.SessionID(i), false
		s.First = place[s.First]
		o.Sessions = append(o.Sessions, s)
	}
	for _, o := range out {
		for i := range o.Turns {
			if t := &o.Turns[i]; t.Next >= 0 {
				t.Next = place[t.Next]
			}
		}
	}
	return out, nil
}
