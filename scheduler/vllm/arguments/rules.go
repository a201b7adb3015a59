package arguments

import (
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/schema"
)

// ruleRow returns the row of a single rule.
func ruleRow(key, unit, text string) schema.Row {
	return schema.Row{
		Key: key, Default: "by scheduler_profile",
		Doc: schema.Doc{Unit: unit, Text: text},
	}
}

// DeclareRules declares the single rules of scheduler_rules.
func DeclareRules(r *vllm.Rules, d *schema.Decl) {
	d.Size(&r.LongPrefillTokens, ruleRow("long_prefill_tokens", "tokens", "maximum number of tokens of one request per pass; 0: no limit (vLLM's `long_prefill_token_threshold`)"))
	d.Size(&r.EmptyPassMs, ruleRow("empty_pass_ms", "ms", "time that the engine sleeps after a pass without tokens to compute, while requests are unfinished"))
	if d.Ratio(&r.Watermark, ruleRow("watermark", "share", "share of KV blocks that admissions leave free while a request runs, below 1")); r.Watermark >= 1 {
		d.Fail("watermark", d.Raw("watermark"), "less than 1")
	}
	for _, f := range []struct {
		key  string
		on   *bool
		text string
	}{
		{"mixed_step", &r.MixedStep, "compute prompts and answers in one pass; false: first prompts, then answers, with separate durations"},
		{"budget_gate", &r.BudgetGate, "admit requests only while the pass has free tokens; false: also admit a request that needs no tokens"},
		{"recompute_last", &r.RecomputeLast, "compute at least one token of a fully cached prompt; false: a fully cached prompt costs nothing"},
		{"admit_idle", &r.AdmitIdle, "admit a request only into free KV blocks; false: preempt running requests for it"},
		{"reserve_whole", &r.ReserveWhole, "admit a request only if all its known tokens fit in the KV cache; false: if its first chunk fits. Ignored unless `admit_idle` is set (vLLM's `scheduler_reserve_full_isl`)"},
		{"whole_allocation", &r.WholeAllocation, "allocate all KV blocks of a chunk or none, and the block of a token when the token is fed back; false: allocate a part of a chunk, and the block of a token with the pass that samples it"},
		{"one_queue", &r.OneQueue, "evict KV blocks in the order of their release; false: evict blocks that were never cached first"},
		{"null_block", &r.NullBlock, "leave one KV block unused, as vLLM does"},
		{"last_victim", &r.LastVictim, "preempt the last running request; false: as `preemption_mode` sets"},
		{"two_in_flight", &r.TwoInFlight, "plan each pass while the previous pass runs; false: after its end (vLLM's `async_scheduling`)"},
		{"first_token_free", &r.FirstTokenFree, "compute the first answer token as part of the prompt; false: it also counts as a decode in that pass"},
		{"whole_alone", &r.WholeAlone, "ignore `long_prefill_tokens` for a request if no other request runs or waits"},
		{"name_at_end", &r.NameAtEnd, "cache a KV block that is filled by the last computed token of an answer"},
		{"empty_pass_idle", &r.EmptyPassIdle, "sleep for `empty_pass_ms` also if no request is left"},
		{"past_self", &r.PastSelf, "if a running request preempts itself, continue with the next running request; false: later requests get no tokens in this pass"},
		{"keep_next", &r.KeepNext, "schedule the request after a request that caused a preemption; false, with `scheduling_policy` priority: skip one later request for each victim before it that had no tokens in this pass"},
		{"window_bound", &r.WindowBound, "admit a request if the KV blocks of its sliding window fit; false: if all its KV blocks fit"},
		{"window_lag", &r.WindowLag, "keep KV blocks that tokens of a running pass attend to; false: release them when the tokens are planned"},
		{"draft_room", &r.DraftRoom, "allocate KV blocks for drafts with the prompt; false: with the first drafts"},
		{"pad_drafts", &r.PadDrafts, "add placeholder drafts to a request that is admitted with one token to compute"},
		{"pad_alone", &r.PadAlone, "apply `pad_drafts` also if no other request is in the pass and all other tokens are cached"},
		{"name_accepted", &r.NameAccepted, "cache KV blocks that accepted drafts fill when the request is preempted or ends; false: only with `two_in_flight`"},
		{"draft_slots", &r.DraftSlots, "with a draft model, each request in a pass takes one more token of the budget"},
		{"draft_budget", &r.DraftBudget, "with a draft model, reduce the token budget of a pass by `max_num_seqs`"},
		{"skip_drafts", &r.SkipDrafts, "compute no drafts after a pass if none of its requests can use them; false: compute drafts after every pass"},
		{"hash_ahead", &r.HashAhead, "with eagle and mtp, identify a KV block also by the token after it; false: compute the last block that a lookup finds again"},
		{"own_interval", &r.OwnInterval, "apply `prefill_schedule_interval`; false: ignore it"},
	} {
		d.Bool(f.on, ruleRow(f.key, "", f.text))
	}
}
