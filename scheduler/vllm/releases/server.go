package releases

import (
	"strings"

	"github.com/replay-llm/replay/scheduler"
)

// ServerBlock is the default number of tokens per KV block in a vLLM server.
const ServerBlock = 16

// ServerLimits returns the defaults of max_num_batched_tokens and max_num_seqs in the releases of a profile. The
// defaults depend on the name of the GPU and its memory in GiB.
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

// Start describes the checks and settings at the start of a server in the releases of a profile.
type Start struct {
	ActiveSeqs  bool // max_num_active_seqs is supported
	Medusa      bool // the method medusa of speculative_config is supported
	LongBounded bool // long_prefill_token_threshold must not exceed the maximum sequence length
	NoSlots     bool // drafts of a draft model may use the whole budget of a pass; a remaining budget of 0 counts as no limit
	SeqSlots    bool // a draft model uses one token of each pass for each of max_num_seqs requests
	TimesYarn   bool // the maximum sequence length with YaRN is the original length times the factor
	Lookahead   bool // a pass must have more tokens than a request has drafts
}

// StartOf returns the checks and settings of the releases of a profile; ok reports whether the profile is known.
func StartOf(profile string) (s Start, ok bool) {
	if k := findProfile(profile); k != nil {
		return k.start, true
	}
	return s, false
}

// DraftSlots returns the number of tokens per pass that a starting server reserves for drafts. drafts is the number
// per request, and seqs is max_num_seqs, or Unlimited.
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
