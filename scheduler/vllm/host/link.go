package host

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Link copies blocks in one direction: transfers one after the other.
type Link[T comparable] struct {
	bytesPerMS float64 // 0: transfers take no time
	busy       float64 // until when
	queue      []transfer[T]
}

type transfer[T comparable] struct {
	of  T
	end float64
}

// NewLink returns an idle link with a bandwidth in 10^9 bytes per second; 0 makes transfers take no time.
func NewLink[T comparable](gbPerSecond float64) Link[T] {
	return Link[T]{bytesPerMS: max(gbPerSecond, 0) * 1e6}
}

// Submit begins a transfer of a number of bytes, at an instant or when those before it have ended.
func (l *Link[T]) Submit(of T, at sim.Time, bytes float64) {
	took := 0.0
	if l.bytesPerMS > 0 {
		took = bytes / l.bytesPerMS
	}
	l.busy = max(float64(at), l.busy) + took
	l.queue = append(l.queue, transfer[T]{of, l.busy})
}

// AppendEnded appends the transfers that have ended by now, in order, and forgets them.
func (l *Link[T]) AppendEnded(all []T, now sim.Time) []T {
	n := 0
	for n < len(l.queue) && l.queue[n].end <= float64(now) {
		all = append(all, l.queue[n].of)
		n++
	}
	l.queue = slices.Delete(l.queue, 0, n)
	return all
}

// EndOf returns the later of an instant and the end of a transfer, if that is in progress.
func (l *Link[T]) EndOf(of T, at sim.Time) sim.Time {
	for i := range l.queue {
		if l.queue[i].of == of {
			at = max(at, sim.Time(l.queue[i].end))
		}
	}
	return at
}

// Next returns when the next transfer ends; ok is false where none is in progress.
func (l *Link[T]) Next() (end sim.Time, ok bool) {
	if len(l.queue) == 0 {
		return 0, false
	}
	return sim.Time(l.queue[0].end), true
}
