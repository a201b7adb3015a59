package host

import (
	"slices"

	"github.com/replay-llm/replay/sim"
)

// Link copies blocks in one direction, one transfer after the other.
type Link[T comparable] struct {
	bytesPerMS float64 // 0: transfers take no time
	busy       float64 // end of the last transfer
	queue      []transfer[T]
}

type transfer[T comparable] struct {
	of  T
	end float64
}

// NewLink returns an idle link with a bandwidth in 10^9 bytes per second. Transfers take no time if the bandwidth is
// 0.
func NewLink[T comparable](gbPerSecond float64) Link[T] {
	return Link[T]{bytesPerMS: max(gbPerSecond, 0) * 1e6}
}

// Submit adds a transfer of a number of bytes. The transfer starts at the instant `at`, or when earlier transfers
// have ended.
func (l *Link[T]) Submit(of T, at sim.Time, bytes float64) {
	took := 0.0
	if l.bytesPerMS > 0 {
		took = bytes / l.bytesPerMS
	}
	l.busy = max(float64(at), l.busy) + took
	l.queue = append(l.queue, transfer[T]{of, l.busy})
}

// AppendEnded appends the transfers that have ended by now, in order, and removes them from l.
func (l *Link[T]) AppendEnded(all []T, now sim.Time) []T {
	n := 0
	for n < len(l.queue) && l.queue[n].end <= float64(now) {
		all = append(all, l.queue[n].of)
		n++
	}
	l.queue = slices.Delete(l.queue, 0, n)
	return all
}

// EndOf returns the later of `at` and the end of a transfer that has not been reported as ended.
func (l *Link[T]) EndOf(of T, at sim.Time) sim.Time {
	for i := range l.queue {
		if l.queue[i].of == of {
			at = max(at, sim.Time(l.queue[i].end))
		}
	}
	return at
}

// Next returns when the next transfer ends; ok is false if there is none.
func (l *Link[T]) Next() (end sim.Time, ok bool) {
	if len(l.queue) == 0 {
		return 0, false
	}
	return sim.Time(l.queue[0].end), true
}
