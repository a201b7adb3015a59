package sglang

import (
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
)

func TestCheck(t *testing.T) {
	compat, fixed := CompatRules(), DefaultRules()
	for _, c := range []struct {
		name  string
		rules Rules
		set   func(*Config)
		want  string // part of the complaint; "" when there is none
	}{
		{"as it is", compat, func(*Config) {}, ""},
		{"as it is", fixed, func(*Config) {}, ""},
		{"no page", compat, func(c *Config) { c.PageTokens = 0 }, "block_size is 0"},
		{"no pages", fixed, func(c *Config) { c.Pages = 0 }, "num_gpu_blocks is 0"},
		{"a pool beyond simulation", compat, func(c *Config) { c.Pages, c.PageTokens = math.MaxInt32, math.MaxInt32 }, "2^40 tokens"},
		{"no prefill", compat, func(c *Config) { c.MaxPrefillTokens = 0 }, "max_prefill_tokens is 0"},
		{"no chunk", fixed, func(c *Config) { c.ChunkTokens = 0 }, "chunked_prefill_size is 0"},
		{"a chunk below a page", compat, func(c *Config) { c.ChunkTokens = 15 }, "at least block_size 16"},
		{"a chunk below a page", fixed, func(c *Config) { c.ChunkTokens = 15 }, "at least block_size 16"},
		{"a budget below a page", compat, func(c *Config) { c.MaxPrefillTokens = 15 }, "max_prefill_tokens is 15"},
		{"a budget below a page", fixed, func(c *Config) { c.MaxPrefillTokens = 15 }, ""},
		{"negative conservativeness", compat, func(c *Config) { c.Conservativeness = -1 }, ""},
		{"negative conservativeness", fixed, func(c *Config) { c.Conservativeness = -1 }, "schedule_conservativeness is -1"},
		{"a clip of nothing", fixed, func(c *Config) { c.ClipNewTokens = 0 }, ""},
		{"a negative clip", fixed, func(c *Config) { c.ClipNewTokens = -1 }, "clip_max_new_tokens is -1"},
		{"a discount on what is not held", fixed, func(c *Config) { c.Rules.LockFirst = false }, "Discount without LockFirst"},
		{"nobody to yield", fixed, func(c *Config) { c.Rules.PartialSlot = false }, "PartialYields without PartialSlot"},
	} {
		err := Check(with(config(c.rules, 16, 100), c.set))
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
		rules           Rules
		page, pages     int
		clip            int
		role            scheduler.Role
		in, out, blocks int // blocks 0: it fits
	}{
		{CompatRules(), 1, 100, 4096, scheduler.Aggregated, 90, 10, 101},
		{CompatRules(), 1, 101, 4096, scheduler.Aggregated, 90, 10, 0},
		{CompatRules(), 1, 100, 1, scheduler.Aggregated, 50, 60, 0}, // let in, and then stuck
		{CompatRules(), 1, 100, 4096, scheduler.Prefill, 98, 60, 0},
		{CompatRules(), 1, 100, 4096, scheduler.Prefill, 99, 60, 101},
		{CompatRules(), 16, 4, 4096, scheduler.Aggregated, 60, 4, 5},
		{DefaultRules(), 1, 100, 4096, scheduler.Aggregated, 90, 10, 0},
		{DefaultRules(), 1, 100, 4096, scheduler.Aggregated, 90, 11, 101},
		{DefaultRules(), 1, 100, 1, scheduler.Aggregated, 50, 60, 110},
		{DefaultRules(), 1, 100, 4096, scheduler.Aggregated, 100, 0, 101},
		{DefaultRules(), 16, 4, 4096, scheduler.Aggregated, 60, 4, 0},
		{DefaultRules(), 16, 4, 4096, scheduler.Decode, 60, 5, 5},
	} {
		config := config(c.rules, c.page, c.pages)
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
