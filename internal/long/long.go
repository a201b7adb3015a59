// Package long sets the number of random cases in property tests.
//
// The environment variable REPLAY_LONG=1 enables all cases. The step "invariants" of .ci/run sets this variable. A
// flag is not possible: "go test ./..." fails for packages that do not define the flag.
package long

import (
	"os"
	"testing"

	"github.com/replay-llm/replay/internal/invariant"
)

// Enabled reports whether tests run all cases. Enabled reports false with the flag -short.
func Enabled() bool { return os.Getenv("REPLAY_LONG") != "" && !testing.Short() }

// Cases returns all if Enabled, and few otherwise.
func Cases[N int | uint64](few, all N) N {
	if Enabled() {
		return all
	}
	return few
}

// Only skips a test that takes seconds, unless Enabled. Only always skips the test in builds with -tags invariants,
// because these check every pass.
func Only(t testing.TB) {
	t.Helper()
	if !Enabled() || invariant.Enabled {
		t.Skip("skipped: it takes seconds; REPLAY_LONG=1 runs it")
	}
}
