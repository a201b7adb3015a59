package loadgen

import (
	"fmt"

	"github.com/replay-llm/replay/sim"
)

// Abandon notes in f that a request has ended without completing: it is in flight
// no more, and the turns after it never come.
func Abandon(f Feed, id sim.RequestID) error {
	d, ok := f.(*sessionDriver)
	if !ok {
		return f.Finish(id, 0) // nobody waits for it
	}
	if id < 0 || int(id) >= len(d.turnOf) || d.turnOf[id] < 0 {
		return fmt.Errorf("request %d was abandoned, but it is not in flight", id)
	}
	d.turnOf[id] = -1
	d.inFlight--
	return nil
}
