package arguments

import (
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/schema"
)

// DeclareRules declares the single rules of scheduler_rules.
func DeclareRules(r *vllm.Rules, d *schema.Decl) {
	d.Size(&r.LongPrefillTokens, schema.Row{Key: "long_prefill_tokens"})
	d.Size(&r.EmptyPassMs, schema.Row{Key: "empty_pass_ms"})
	if d.Ratio(&r.Watermark, schema.Row{Key: "watermark"}); r.Watermark >= 1 {
		d.Fail("watermark", d.Raw("watermark"), "less than 1")
	}
	for _, f := range []struct {
		key string
		on  *bool
	}{
		{"mixed_step", &r.MixedStep}, {"budget_gate", &r.BudgetGate}, {"recompute_last", &r.RecomputeLast},
		{"admit_idle", &r.AdmitIdle}, {"reserve_whole", &r.ReserveWhole}, {"whole_allocation", &r.WholeAllocation},
		{"one_queue", &r.OneQueue}, {"null_block", &r.NullBlock}, {"last_victim", &r.LastVictim},
		{"two_in_flight", &r.TwoInFlight}, {"first_token_free", &r.FirstTokenFree},
		{"whole_alone", &r.WholeAlone}, {"name_at_end", &r.NameAtEnd},
		{"empty_pass_idle", &r.EmptyPassIdle}, {"past_self", &r.PastSelf}, {"keep_next", &r.KeepNext},
		{"window_bound", &r.WindowBound}, {"window_lag", &r.WindowLag},
		{"draft_room", &r.DraftRoom},
		{"pad_drafts", &r.PadDrafts}, {"pad_alone", &r.PadAlone}, {"name_accepted", &r.NameAccepted}, {"draft_slots", &r.DraftSlots},
		{"draft_budget", &r.DraftBudget}, {"skip_drafts", &r.SkipDrafts}, {"hash_ahead", &r.HashAhead}, {"own_interval", &r.OwnInterval},
	} {
		d.Bool(f.on, schema.Row{Key: f.key})
	}
}
