// Package bell wakes goroutines.
package bell

// Bell is a channel on which a goroutine waits. Rings before it is received from count once.
type Bell chan struct{}

// New returns a bell that has not rung.
func New() Bell { return make(Bell, 1) }

// Ring wakes the goroutine. It never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}
