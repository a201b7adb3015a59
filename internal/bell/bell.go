// Package bell wakes goroutines that wait for an event.
package bell

// Bell is a channel on which a goroutine waits. Several rings before the goroutine receives count as one.
type Bell chan struct{}

// New returns a bell that has not rung.
func New() Bell { return make(Bell, 1) }

// Ring wakes the waiting goroutine. Ring never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
