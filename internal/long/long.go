// Package long sets how many random cases a property test draws.
//
// REPLAY_LONG=1 asks for all cases, as the step "invariants" of .ci/run does. It is a
// variable and not a flag because "go test ./..." fails in packages that do not
// define a flag.
package long

import (
	"os"
	"testing"

	"github.com/replay-llm/replay/internal/invariant"
)

// Enabled reports whether tests draw all cases. With -short they never do.
func Enabled() bool { return os.Getenv("REPLAY_LONG") != "" && !testing.Short() }

// Cases returns all if tests draw all cases, and few otherwise.
func Cases[N int | uint64](few, all N) N {
	if Enabled() {
		return all
	}
	return few
}

// Only skips a test that takes seconds unless tests draw all cases. Where
// every pass is checked (-tags invariants) it is skipped too.
func Only(t testing.TB) {
	t.Helper()
	if !Enabled() || invariant.Enabled {
		t.Skip("skipped: it takes seconds; REPLAY_LONG=1 runs it")
	}
}
