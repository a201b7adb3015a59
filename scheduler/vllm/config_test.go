package vllm_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
)

// A request with 4 prompt and 5 answer tokens needs two blocks of 4 by vLLM's own rules, because its last token is
// not stored. By the reference's rules it needs three. vLLM keeps one additional block unused.
func TestFits(t *testing.T) {
	for _, c := range []struct {
		rules         vllm.Rules
		blocks        int
		input, output int
		fits          bool
		want          int // sufficient number of blocks
	}{
		{vllm.Rules{}, 2, 4, 4, true, 0},
		{vllm.Rules{}, 2, 4, 5, false, 3},
		{releases.Rules019(), 3, 4, 5, true, 0},
		{releases.Rules019(), 2, 4, 5, false, 3},
		{releases.Rules019(), 3, 4, 6, false, 4},
		{releases.Rules019(), 3, 4, 0, false, 0},
		{vllm.Rules{}, math.MaxInt32, 1 << 30, 1<<30 - 1, true, 0},
		{vllm.Rules{}, math.MaxInt32, 1 << 30, 1 << 30, false, 0}, // 2^31 tokens
		{releases.Rules019(), math.MaxInt32, math.MaxInt32, 1, false, 0},
	} {
		cfg := vllm.Config{Settings: vllm.Settings{Rules: c.rules}, Blocks: c.blocks, BlockTokens: 4}
		err := cfg.Fits(c.input, c.output)
		if (err == nil) != c.fits || err != nil && err.Blocks != c.want {
			t.Errorf("%d and %d tokens in %d blocks, null block %v: %v", c.input, c.output, c.blocks, c.rules.NullBlock, err)
		}
	}
}

// A prompt that may not be cut must fit in a pass.
func TestCheckWholePrompt(t *testing.T) {
	cfg := vllm.Config{Settings: vllm.Settings{MaxBatchedTokens: 8}}
	if cfg.CheckWholePrompt(8, 1) != nil || cfg.CheckWholePrompt(9, 1) == nil {
		t.Error("a pass of 8 tokens takes prompts up to 8")
	}
	if cfg.ChunkedPrefill = true; cfg.CheckWholePrompt(9, 1) != nil {
		t.Error("a prompt of 9 tokens may be cut")
	}
	if cfg = (vllm.Config{Settings: vllm.Settings{MaxBatchedTokens: vllm.Unlimited}}); cfg.CheckWholePrompt(9, 1) != nil {
		t.Error("a pass without a limit takes any prompt")
	}
}

// A slot has as many bits as the id of a request, so that there are enough slots.
func TestSlotsSuffice(t *testing.T) {
	if s, id := unsafe.Sizeof(blocks.Slot(0)), unsafe.Sizeof(sim.RequestID(0)); s < id {
		t.Errorf("slots have %d bytes, request ids %d", s, id)
	}
}

// Profiles begin with the reference and vLLM 0.19, and each name gives its own rules.
func TestProfiles(t *testing.T) {
	names := releases.Profiles()
	if len(names) < 2 || names[0] != "reference" || names[1] != "vllm-0.19" {
		t.Errorf("profiles %q", names)
	}
	for i, name := range names {
		rules, err := releases.ParseProfile(name)
		if err != nil || rules.Reference() != (i == 0) {
			t.Errorf("%s: %+v, %v", name, rules, err)
		}
	}
	if rules, err := releases.ParseProfile("vllm-0.19"); err != nil || rules != releases.Rules019() {
		t.Errorf("vllm-0.19: %+v, %v", rules, err)
	}
	if rules, err := releases.ParseProfile("vllm"); err != nil || rules != releases.RulesOf("99.0") {
		t.Errorf("vllm: %+v, %v", rules, err)
	}
	for release, want := range map[string]string{
		"0.11.2": "vllm-0.19", "0.20.2": "vllm-0.20", "0.24.0": "vllm-0.24", "0.27.1": "vllm-0.27", "0.28.0": "vllm-0.28", "0.31.0": "vllm-0.31", "0.30.0": "vllm-0.30", "0.32.0": "vllm-0.32", "0.33.0": "vllm-0.33", "1.0": "vllm-0.33", "dev": "vllm-0.19",
	} {
		if got := releases.Nearest(release); got != want {
			t.Errorf("release %s: rules of %s, want %s", release, got, want)
		}
	}
	if _, err := releases.ParseProfile("vllm-0"); err == nil || err.Error() != `scheduler_profile is "vllm-0", must be reference or vllm-0.19 or vllm-0.20 or vllm-0.24 or vllm-0.27 or vllm-0.28 or vllm-0.30 or vllm-0.31 or vllm-0.32 or vllm-0.33 or vllm` {
		t.Errorf("vllm-0: %v", err)
	}
}
