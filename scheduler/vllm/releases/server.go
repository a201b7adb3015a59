package releases

import (
	"strings"

	"github.com/replay-llm/replay/scheduler"
)

// ServerBlock is the tokens of a KV block of a vLLM server where nothing is said.
const ServerBlock = 16

// ServerLimits returns the default token budget and number of requests of a vLLM server of the releases of a profile:
// by the name of the GPU and its memory in GiB.
func ServerLimits(profile, gpu string, memory float64) (batchedTokens, seqs int) {
	k := findProfile(profile)
	switch {
	case k != nil && k.large && memory >= 160:
		return 16384, 1024
	case memory >= 70 && !strings.Contains(strings.ToLower(gpu), "a100"):
		return 8192, 1024
	default:
		return 2048, 256
	}
}

// Start is what the releases of a profile check when a server starts, and the settings that they have.
type Start struct {
	ActiveSeqs  bool // max_num_active_seqs
	Medusa      bool // the method medusa of speculative_config
	LongBounded bool // long_prefill_token_threshold is at most the longest sequence
	NoSlots     bool // a draft model may take all tokens of a pass, which counts as none
	SeqSlots    bool // a draft model takes a token of each pass for every request at once
	TimesYarn   bool // the longest sequence of a model with YaRN is the original one times the factor
	Lookahead   bool // a pass has more tokens than a request has drafts
}

// StartOf returns what the releases of a profile check; ok reports whether it is known.
func StartOf(profile string) (s Start, ok bool) {
	if k := findProfile(profile); k != nil {
		return k.start, true
	}
	return s, false
}

// DraftSlots returns the tokens of a pass that a server reserves for drafts when it starts, by the numbers of drafts
// and of requests at once; Unlimited without a limit of requests.
func (s *Start) DraftSlots(method scheduler.Drafter, drafts, seqs int) int {
	switch {
	case s.Lookahead && method != scheduler.ByLookup:
		return drafts
	case method != scheduler.ByDraftModel || s.NoSlots:
		return 0
	case s.SeqSlots:
		return seqs
	}
	return 1
}
