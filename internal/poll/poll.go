// Package poll waits in tests for conditions that are not signaled by a channel.
package poll

import (
	"testing"
	"time"
)

// limit is the maximum time to wait for a condition. A test reaches this limit only if something hangs.
const limit = 2 * time.Minute

// Wait calls is repeatedly until is returns true or two minutes have passed. Wait reports whether is returned true.
// The polling interval grows with the waiting time.
func Wait(is func() bool) bool {
	const often, rarely, share = 200 * time.Microsecond, 20 * time.Millisecond, 20
	for from := time.Now(); !is(); {
		waited := time.Since(from)
		if waited > limit {
			return false
		}
		time.Sleep(min(max(waited/share, often), rarely))
	}
	return true
}

// Until polls is until it reports true, and returns the waiting time. The test fails after two minutes.
func Until(t testing.TB, what string, is func() bool) time.Duration {
	t.Helper()
	from := time.Now()
	if !Wait(is) {
		t.Fatalf("never: %s", what)
	}
	return time.Since(from)
}
