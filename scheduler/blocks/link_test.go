package blocks

import (
	"fmt"
	"math"
	"testing"

	"github.com/replay-llm/replay/sim"
)

// A link of 0.000001 GB/s moves one byte per ms, so that a single transfer takes as many ms as it has bytes.
func TestLinkShares(t *testing.T) {
	type event struct {
		at    sim.Time
		start float64 // bytes; 0: no transfer starts
		done  string  // ids in order
		next  sim.Time
	}
	idle := sim.Time(math.Inf(1))
	for _, c := range []struct {
		name   string
		gbps   float64
		events []event
	}{
		{"alone", 1e-6, []event{
			{at: 5, start: 10, done: "[]", next: 15},
			{at: 14, done: "[]", next: 15},
			{at: 15, done: "[1]", next: idle},
		}},
		// Transfer 1 moves 4 bytes alone. Then both transfers move at half speed: transfer 1 needs 12 ms for its
		// remaining 6 bytes. Transfer 2 moves 6 of its 10 bytes in the shared 12 ms, and the last 4 bytes alone.
		{"two overlap", 1e-6, []event{
			{at: 0, start: 10, done: "[]", next: 10},
			{at: 4, start: 10, done: "[]", next: 16},
			{at: 15, done: "[]", next: 16},
			{at: 16, done: "[1]", next: 20},
			{at: 20, done: "[2]", next: idle},
		}},
		// A late check finds the same ends at once.
		{"looked at late", 1e-6, []event{
			{at: 0, start: 10, done: "[]", next: 10},
			{at: 4, start: 10, done: "[]", next: 16},
			{at: 100, done: "[1 2]", next: idle},
		}},
		// Until 3 ms, transfer 1 moves 3 bytes alone. Until 6 ms, transfers 1 and 2 each move 1.5 bytes, so that 5.5
		// and 8.5 bytes remain. Transfer 3 needs 9 ms for its 3 bytes; then 2.5 and 5.5 bytes of the other transfers
		// remain. Transfer 1 ends 5 ms later, and transfer 2 moves its last 3 bytes alone.
		{"a short one overtakes", 1e-6, []event{
			{at: 0, start: 10, done: "[]", next: 10},
			{at: 3, start: 10, done: "[]", next: 17},
			{at: 6, start: 3, done: "[]", next: 15},
			{at: 15, done: "[3]", next: 20},
			{at: 20, done: "[1]", next: 23},
			{at: 23, done: "[2]", next: idle},
		}},
		// Transfers of equal size end together, in the order of their start.
		{"a tie", 1e-6, []event{
			{at: 0, start: 2, done: "[]", next: 2},
			{at: 0, start: 2, done: "[]", next: 4},
			{at: 4, done: "[1 2]", next: idle},
		}},
		{"no time", 0, []event{
			{at: 7, start: 1e12, done: "[]", next: 7},
			{at: 7, start: 1, done: "[1]", next: 7},
			{at: 7, done: "[2]", next: idle},
		}},
		// 14 GB/s are 14e6 bytes per ms.
		{"the default", 14, []event{
			{at: 0, start: 28e6, done: "[]", next: 2},
			{at: 2 - 1e-10, done: "[1]", next: idle},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLink(c.gbps)
			var id transferID
			for _, e := range c.events {
				done := l.advance(e.at, nil)
				if got := fmt.Sprint(done); got != e.done {
					t.Errorf("at %v: %v done, want %v", e.at, got, e.done)
				}
				if e.start > 0 {
					id++
					l.start(e.at, id, e.start)
				}
				next := idle
				if l.isBusy() {
					next = l.next()
				}
				if next != e.next {
					t.Errorf("at %v: next is %v, want %v", e.at, next, e.next)
				}
			}
		})
	}
}
