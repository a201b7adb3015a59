// Package poll waits in tests for conditions that no channel signals.
package poll

import (
	"testing"
	"time"
)

// limit is how long a condition may take. It is reached only if something hangs.
const limit = 2 * time.Minute

// Wait waits until is reports true, at most two minutes, and reports whether it did. The
// longer it takes, the less often is is called.
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

// Until waits until is reports true and returns how long that took. The test fails after
// two minutes.
func Until(t testing.TB, what string, is func() bool) time.Duration {
	t.Helper()
	from := time.Now()
	if !Wait(is) {
		t.Fatalf("never: %s", what)
	}
	return time.Since(from)
}
