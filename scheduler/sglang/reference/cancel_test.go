package reference

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
)

// Requests can be canceled; the pool may lose only pages.
func TestCancel(t *testing.T) {
	schedulertest.RunCancel(t, false, func(s schedulertest.Setup) scheduler.Core {
		c := config(s.BlockTokens, 4096)
		c.Tree, c.MaxPrefillTokens = s.Tree, 1<<20
		core, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		return core
	})
}
