package engineargs

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/schema"
)

// CompleteLimits sets the missing limits of a vLLM server from the given limits, as the server does. The token budget
// follows from the maximum sequence length, and is 0 if that is unknown. The number of requests follows from the
// token budget.
func (a *Args) CompleteLimits(longest int, gives func(key string) bool) {
	if !gives(vllm.TokensKey) && longest > 0 {
		if !a.ChunkedPrefill {
			a.MaxBatchedTokens = max(a.MaxBatchedTokens, longest)
		}
		if a.MaxSeqs != Unlimited && a.MaxSeqs <= maxBlocks/longest {
			a.MaxBatchedTokens = min(a.MaxBatchedTokens, a.MaxSeqs*longest)
		}
	}
	if !gives(vllm.SeqsKey) && a.MaxBatchedTokens != Unlimited {
		a.MaxSeqs = min(a.MaxSeqs, a.MaxBatchedTokens)
	}
}

// verify rejects settings that a vLLM server rejects at its start. verify applies only to vLLM's own rules and
// complete arguments.
func (a *Args) verify(d *schema.Decl, o *Options) {
	if !d.OK() || o.Incomplete || d.Compat || a.Engine != VLLM || a.Rules.Reference() {
		return
	}
	a.CompleteLimits(a.MaxLength, d.Gives)
	start, _ := releases.StartOf(a.Profile)
	a.verifyLimits(d, &start)
	a.verifyLongPrompts(d, &start)
	if a.Speculative != nil {
		a.verifyDrafts(d, &start)
	}
}

// verifyLimits checks that the limits of a pass are consistent.
func (a *Args) verifyLimits(d *schema.Decl, start *releases.Start) {
	if a.MaxBatchedTokens != Unlimited {
		if a.MaxLength > 0 && !a.ChunkedPrefill && a.MaxBatchedTokens < a.MaxLength {
			d.Fail(vllm.TokensKey, strconv.Itoa(a.MaxBatchedTokens), fmt.Sprintf("at least max_model_len, which is %d, with enable_chunked_prefill false", a.MaxLength))
		}
		if a.MaxSeqs != Unlimited && a.MaxBatchedTokens < a.MaxSeqs {
			d.Fail(vllm.TokensKey, strconv.Itoa(a.MaxBatchedTokens), fmt.Sprintf("at least %s, which is %d", vllm.SeqsKey, a.MaxSeqs))
		}
	}
	const active = "max_num_active_seqs"
	switch {
	case a.ActiveSeqs == 0:
	case a.Profile != "" && !start.ActiveSeqs:
		d.FailRule(active, strconv.Itoa(a.ActiveSeqs), fmt.Sprintf("not supported with scheduler_profile %s: its releases of vLLM lack the setting", a.Profile))
	case a.MaxSeqs != Unlimited && a.ActiveSeqs > a.MaxSeqs:
		d.Fail(active, strconv.Itoa(a.ActiveSeqs), fmt.Sprintf("at most %s, which is %d", vllm.SeqsKey, a.MaxSeqs))
	}
}

// verifyLongPrompts checks the maximum tokens of one request in a pass. The limit must be consistent with the maximum
// sequence length, and with the tokens that a request with drafts has in every pass.
func (a *Args) verifyLongPrompts(d *schema.Decl, start *releases.Start) {
	const key = "scheduler_rules.long_prefill_tokens"
	long := a.Rules.LongPrefillTokens
	switch {
	case long == 0:
	case start.LongBounded && a.MaxLength > 0 && long > a.MaxLength:
		d.Fail(key, strconv.Itoa(long), fmt.Sprintf("at most max_model_len, which is %d", a.MaxLength))
	case a.Speculative != nil && a.Rules.PadAlone && long < 1+a.Speculative.Tokens:
		d.Fail(key, strconv.Itoa(long), fmt.Sprintf("at least 1 + num_speculative_tokens, which is %d: vLLM ends when it pads a request to as many", 1+a.Speculative.Tokens))
	}
}

// verifyDrafts rejects invalid settings of speculative decoding.
func (a *Args) verifyDrafts(d *schema.Decl, start *releases.Start) {
	s := a.Speculative
	if s.Name == medusa && a.Profile != "" && !start.Medusa {
		d.FailRule("speculative_config.method", strconv.Quote(medusa), fmt.Sprintf("not supported with scheduler_profile %s: its releases of vLLM lack the method", a.Profile))
	}
	if s.LookupMin > 0 && s.LookupMax > 0 && s.LookupMin > s.LookupMax && s.Name == "ngram" {
		d.Fail("speculative_config.prompt_lookup_min", strconv.Itoa(s.LookupMin), fmt.Sprintf("at most prompt_lookup_max, which is %d", s.LookupMax))
	}
	if a.MaxLength > 0 && s.MaxLength > a.MaxLength {
		d.Fail("speculative_config.max_model_len", strconv.Itoa(s.MaxLength), fmt.Sprintf("at most max_model_len, which is %d", a.MaxLength))
	}
	slots := start.DraftSlots(s.Method, s.Tokens, a.MaxSeqs)
	if a.MaxBatchedTokens != Unlimited && slots > 0 && a.MaxBatchedTokens <= slots {
		d.Fail(vllm.TokensKey, strconv.Itoa(a.MaxBatchedTokens), fmt.Sprintf("more than %d, which the drafts take", slots))
	}
}
