package sglang

import (
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// Passes count verified drafts, accepted drafts, and requests with an inter-token latency in the pass.
func TestCounts(t *testing.T) {
	type counts struct{ verified, drafts, accepted, decoding, gaps int }
	for _, c := range []struct {
		name string
		set  func(*Config)
		want counts
	}{
		{"drafts", func(c *Config) { c.Speculation = speculate(scheduler.ByHead, 1, 1) }, counts{verified: 4, drafts: 8, accepted: 8, decoding: 4}},
		{"no drafts", func(*Config) {}, counts{decoding: 12}},
	} {
		cfg := config(16, 40)
		cfg.Overlap = false
		c.set(&cfg)
		core := mustBuild(t, cfg)
		for i := range 2 {
			core.Submit(&sim.Request{ID: sim.RequestID(i), InputTokens: 6, OutputTokens: 7, Prompt: core.Tree.Add([]uint64{uint64(i)}, 6)})
		}
		var got counts
		var p scheduler.Pass
		for now := sim.Time(0); core.Load() > 0; now = p.End {
			if err := core.Step(now, now, &p); err != nil {
				t.Fatal(err)
			}
			got.verified, got.drafts, got.accepted = got.verified+p.Verified, got.drafts+p.Drafts, got.accepted+p.Accepted
			got.decoding, got.gaps = got.decoding+p.Decoding, got.gaps+len(p.Gaps)
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// The next request goes to the rank with the least load by the balance policy.
func TestIsLess(t *testing.T) {
	for _, c := range []struct {
		how  Balance
		x, y load
		want bool
	}{
		{TotalRequests, load{1, 9}, load{2, 3}, true}, {TotalRequests, load{1, 3}, load{1, 9}, false}, {TotalRequests, load{2, 3}, load{1, 9}, false},
		{TotalTokens, load{1, 9}, load{2, 3}, false}, {TotalTokens, load{2, 3}, load{1, 9}, true},
		{TotalTokens, load{1, 3}, load{2, 3}, true}, {TotalTokens, load{2, 3}, load{2, 3}, false},
	} {
		if got := (&balancer{how: c.how}).isLess(c.x, c.y); got != c.want {
			t.Errorf("%v: %v before %v is %v, want %v", c.how, c.x, c.y, got, c.want)
		}
	}
}
