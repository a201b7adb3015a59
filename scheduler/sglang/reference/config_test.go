package reference

import (
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/sim/prompt"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*sglang.Config)
		want string // part of the error; "": no error
	}{
		{"as it is", func(*sglang.Config) {}, ""},
		{"no page", func(c *sglang.Config) { c.PageTokens = 0 }, "block_size is 0"},
		{"no prefill", func(c *sglang.Config) { c.MaxPrefillTokens = 0 }, "max_prefill_tokens is 0"},
		{"a chunk below a page", func(c *sglang.Config) { c.ChunkTokens = 15 }, "at least block_size 16"},
		{"a budget below a page", func(c *sglang.Config) { c.MaxPrefillTokens = 15 }, "max_prefill_tokens is 15"},
		{"negative conservativeness", func(c *sglang.Config) { c.Conservativeness = -1 }, ""},
		{"endless conservativeness", func(c *sglang.Config) { c.Conservativeness = math.Inf(1) }, "schedule_conservativeness is +Inf"},
	} {
		cfg := with(config(16, 100), c.set)
		cfg.Tree = prompt.NewTree(16, 16, prompt.Options{})
		err := checkConfig(cfg)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v, want no complaint", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want a complaint with %q", c.name, err, c.want)
		}
	}
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		page, pages     int
		clip            int
		role            scheduler.Role
		in, out, blocks int // blocks 0: the request fits
	}{
		{1, 100, 4096, scheduler.Aggregated, 90, 10, 101},
		{1, 101, 4096, scheduler.Aggregated, 90, 10, 0},
		{1, 100, 1, scheduler.Aggregated, 50, 60, 0}, // admitted, but never finishes
		{1, 100, 4096, scheduler.Prefill, 98, 60, 0},
		{1, 100, 4096, scheduler.Prefill, 99, 60, 101},
		{16, 4, 4096, scheduler.Aggregated, 60, 4, 5},
	} {
		config := config(c.page, c.pages)
		config.ClipNewTokens, config.Role = c.clip, c.role
		err := Fits(config, c.in, c.out)
		switch {
		case c.blocks == 0 && err != nil:
			t.Errorf("%+v: %v, want it to fit", c, err)
		case c.blocks > 0 && (err == nil || err.Blocks != c.blocks):
			t.Errorf("%+v: %v, want it to need %d blocks", c, err, c.blocks)
		}
	}
}
