package sglang

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/sim"
)

// Requests can be taken out under both sets of rules, whatever the cache is
// told.
func TestCancel(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"default":   func(*Config) {},
		"residency": func(c *Config) { c.Capture = scheduler.CaptureResidency },
		"events":    func(c *Config) { c.Capture = scheduler.CaptureEvents },
		"prefixes":  func(c *Config) { c.Policy = LPM },
		"chunks":    func(c *Config) { c.ChunkTokens = 16 },
		"compat": func(c *Config) { // its pool loses pages by itself
			c.Rules, c.MaxPrefillTokens, c.Pages = CompatRules(), 1<<20, 4096
		},
		"no cache": func(c *Config) { c.PrefixCaching = false },
	} {
		t.Run(name, func(t *testing.T) {
			schedulertest.RunCancel(t, name != "compat", func(s schedulertest.Setup) scheduler.Core {
				c := config(DefaultRules(), s.BlockTokens, s.Blocks)
				c.Tree, c.MaxPrefillTokens = s.Tree, s.MaxBatchedTokens
				c.Tokens = func(r *sim.Request, dst []uint64) []uint64 {
					return s.Tree.AppendTokens(&r.Prompt, r.InputTokens, dst)
				}
				change(&c)
				core, err := New(c)
				if err != nil {
					t.Fatal(err)
				}
				return core
			})
		})
	}
}
