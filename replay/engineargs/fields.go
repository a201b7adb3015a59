package engineargs

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// Keys returns the keys of the object, sorted.
func Keys() []string {
	var r reader
	r.read(&Args{})
	keys := append(r.asked, "has_perf_model") // which the reference takes and ignores
	slices.Sort(keys)
	return slices.Compact(keys)
}

// read reads the keys in the order in which the reference complains. What it
// asks for is a key.
func (r *reader) read(a *Args) {
	if engine := r.choice("engine_type", "vllm", "sglang"); engine == "sglang" {
		a.Engine = SGLang
	}
	a.Role = r.readRole()
	r.count("num_gpu_blocks", &a.Blocks)
	a.BlockTokens = 0
	r.size("block_size", &a.BlockTokens)
	r.limit("max_num_seqs", &a.MaxSeqs)
	r.limit("max_num_batched_tokens", &a.MaxBatchedTokens)
	if r.count("max_model_len", &a.MaxLength); r.compat && a.MaxLength > 0 {
		r.fail("max_model_len", strconv.Itoa(a.MaxLength), "none with compat: the reference has no longest sequence")
	}
	r.flag("enable_prefix_caching", &a.PrefixCaching)
	r.flag("enable_chunked_prefill", &a.ChunkedPrefill)
	r.ratio("speedup_ratio", &a.Speedup)
	r.ratio("decode_speedup_ratio", &a.DecodeSpeedup)
	r.dpSize(&a.DPSize)
	r.ratio("startup_time", &a.StartupSeconds)
	r.readWarmup(a)
	r.size("kv_bytes_per_token", &a.KVBytesPerToken)
	r.ratio("kv_transfer_bandwidth", &a.TransferGBPerSecond)
	r.ratio("kv_transfer_latency_ms", &a.TransferLatencyMs)
	if r.choice("preemption_mode", "lifo", "fifo") == "fifo" {
		a.Preemption = vllm.FIFO
	}
	r.count("max_num_active_seqs", &a.ActiveSeqs)
	r.count("prefill_schedule_interval", &a.PrefillInterval)
	if r.choice("scheduling_policy", vllm.FirstCome.String(), vllm.ByPriority.String()) == vllm.ByPriority.String() {
		a.Scheduling = vllm.ByPriority
	}
	a.QueuePolicy = r.choice("router_queue_policy", "fcfs", "lcfs", "wspt", "priority", "wfq", "edf")
	r.path("planner_profile_data", &a.ProfilePath)
	r.readAIC(&a.AIC)
	r.readG2(&a.G2)
	r.flag("enable_local_indexer", &a.LocalIndexer)
	r.port("bootstrap_port", &a.BootstrapPort)
	r.port("zmq_kv_events_port", &a.KVEventsPort)
	r.port("zmq_replay_port", &a.ReplayPort)
	a.Reasoning = r.readReasoning()
	r.readSGLang(&a.SGLang)
	r.readWindows(a)
	r.readSpeculative(a)
	r.readRules(a)
	r.checkWarmup(a)
	r.verify(a)
}

// readRules reads the rules of vLLM's scheduler: a set of them by name, then single
// ones.
func (r *reader) readRules(a *Args) {
	if a.Engine == SGLang {
		r.choice("scheduler_profile", r.sglangProfiles()...)
		r.checkHiCache(a)
		return
	}
	name, isRelease := vllm.ParseRelease(string(r.raw("scheduler_profile")))
	if !isRelease {
		name = r.choice("scheduler_profile", vllm.Profiles()...)
	}
	if rules, err := vllm.ParseProfile(name); err == nil {
		a.Rules, a.Profile, a.Uncertain = rules, vllm.NameProfile(name), vllm.Uncertainty(name)
	}
	m := r.openObject("scheduler_rules")
	r.readAsync(a, m)
	if m == nil {
		r.checkRules(a)
		return
	}
	x := &a.Rules
	m.size("long_prefill_tokens", &x.LongPrefillTokens)
	m.size("empty_pass_ms", &x.EmptyPassMs)
	if m.ratio("watermark", &x.Watermark); x.Watermark >= 1 {
		m.fail("watermark", string(m.values["watermark"]), "less than 1")
	}
	for _, f := range []struct {
		key string
		on  *bool
	}{
		{"mixed_step", &x.MixedStep}, {"budget_gate", &x.BudgetGate}, {"recompute_last", &x.RecomputeLast},
		{"admit_idle", &x.AdmitIdle}, {"reserve_whole", &x.ReserveWhole}, {"whole_allocation", &x.WholeAllocation},
		{"one_queue", &x.OneQueue}, {"null_block", &x.NullBlock}, {"last_victim", &x.LastVictim},
		{"two_in_flight", &x.TwoInFlight}, {"first_token_free", &x.FirstTokenFree},
		{"whole_alone", &x.WholeAlone}, {"name_at_end", &x.NameAtEnd},
		{"empty_pass_idle", &x.EmptyPassIdle}, {"past_self", &x.PastSelf}, {"keep_next", &x.KeepNext},
		{"window_bound", &x.WindowBound}, {"window_lag", &x.WindowLag},
		{"draft_room", &x.DraftRoom},
		{"pad_drafts", &x.PadDrafts}, {"pad_alone", &x.PadAlone}, {"name_accepted", &x.NameAccepted}, {"draft_slots", &x.DraftSlots},
		{"draft_budget", &x.DraftBudget}, {"skip_drafts", &x.SkipDrafts}, {"hash_ahead", &x.HashAhead}, {"own_interval", &x.OwnInterval},
	} {
		m.flag(f.key, f.on)
	}
	for _, key := range m.values.unknownKeys(m.asked) {
		m.fail(key, excerpt.CutLine(m.values[key]), "one of "+strings.Join(m.asked, ", "))
	}
	if r.err == nil {
		r.err = m.err
	}
	r.checkRules(a)
}

// checkRules refuses rules where nothing follows them.
func (r *reader) checkRules(a *Args) {
	if r.err != nil {
		return
	}
	if a.Rules.Reference() && r.early {
		return
	}
	if a.Rules.Reference() {
		if a.Scheduling == vllm.ByPriority {
			r.fail("scheduling_policy", `"priority"`, "vLLM's own rules with it: scheduler_profile vllm")
		}
		if a.Windows.Given() {
			r.fail("sliding_window", strconv.Itoa(a.Windows.Tokens), "vLLM's own rules with it: scheduler_profile vllm")
		}
		if a.Speculative != nil {
			r.fail("speculative_config", excerpt.CutLine(r.values["speculative_config"]), "vLLM's own rules with it: scheduler_profile vllm")
		}
		if a.PrefillInterval > 1 {
			r.fail("prefill_schedule_interval", strconv.Itoa(a.PrefillInterval), "vLLM's own rules with it: scheduler_profile vllm")
		}
		return
	}
	if r.compat {
		r.fail("scheduler_profile", "vLLM's own", `"reference" with compat`)
	}
	r.checkSpeculative(a)
}

// sglangProfiles returns the rules that an SGLang engine can follow: the reference's with
// compat, and its own otherwise.
func (r *reader) sglangProfiles() []string {
	if r.compat {
		return []string{"reference"}
	}
	return sglang.Profiles()
}

func (r *reader) readRole() scheduler.Role {
	named := string(r.raw("worker_type"))
	switch named {
	case `"prefill"`:
		return scheduler.Prefill
	case `"decode"`:
		return scheduler.Decode
	}
	var prefill, decode bool
	r.flag("is_prefill", &prefill)
	r.flag("is_decode", &decode)
	switch {
	case prefill && decode:
		r.fail("is_decode", "true", "not both is_prefill and is_decode")
	case prefill:
		return scheduler.Prefill
	case decode:
		return scheduler.Decode
	}
	if named != "" {
		return scheduler.Aggregated
	}
	return r.pool
}

func (r *reader) readAIC(a *AIC) {
	r.text("aic_backend", &a.Backend)
	r.text("aic_system", &a.System)
	r.text("aic_backend_version", &a.BackendVersion)
	r.text("aic_model_path", &a.ModelPath)
	r.size("aic_tp_size", &a.TPSize)
	r.size("aic_moe_tp_size", &a.MoETPSize)
	r.size("aic_moe_ep_size", &a.MoEEPSize)
	r.size("aic_attention_dp_size", &a.AttentionSize)
}

func (r *reader) readG2(g *G2) {
	r.count("num_g2_blocks", &g.Blocks)
	r.count("offload_batch_size", &g.BatchBlocks)
	r.ratio("bandwidth_g1_to_g2_gbps", &g.ToHostGBPerSec)
	r.ratio("bandwidth_g2_to_g1_gbps", &g.ToGPUGBPerSec)
	r.ratio("bandwidth_g2_to_g3_gbps", &g.ToStorageGBPerSec)
	r.ratio("bandwidth_g3_to_g2_gbps", &g.FromStorageGBPerSec)
}

// openObject returns the reader of a nested object, or nil when there is none.
func (r *reader) openObject(key string) *reader {
	text := r.raw(key)
	if text == nil || string(text) == "null" || r.err != nil {
		return nil
	}
	values, err := readObject(text)
	if err != nil {
		r.fail(key, excerpt.CutLine(text), "an object or null")
		return nil
	}
	return &reader{values: values, prefix: key + ".", compat: r.compat, strict: true}
}

func (r *reader) readReasoning() *Reasoning {
	m := r.openObject("reasoning")
	if m == nil {
		return nil
	}
	for _, key := range []string{"start_thinking_token_id", "end_thinking_token_id", "thinking_ratio"} {
		if value, ok := m.values[key]; !ok || string(value) == "null" {
			m.fail(key, "missing", "a number")
		}
	}
	var start, end int
	out := &Reasoning{}
	m.size("start_thinking_token_id", &start)
	m.size("end_thinking_token_id", &end)
	m.number("thinking_ratio", &out.Ratio)
	if max(start, end) > math.MaxUint32 {
		m.fail("start_thinking_token_id", strconv.Itoa(max(start, end)), "at most 4294967295")
	}
	out.StartToken, out.EndToken = uint32(start), uint32(end)
	r.err = m.err
	return out
}

func (r *reader) readSGLang(s *SGLangArgs) {
	m := r.openObject("sglang")
	if m == nil {
		return
	}
	m.text("schedule_policy", &s.Policy)
	s.PageGiven = m.size("page_size", &s.PageTokens)
	m.size("max_prefill_tokens", &s.MaxPrefillTokens)
	s.ChunkGiven = m.size("chunked_prefill_size", &s.ChunkTokens)
	m.size("clip_max_new_tokens", &s.ClipNewTokens)
	m.number("schedule_conservativeness", &s.Conservativeness)
	given := len(m.asked)
	overlap := true
	m.count("context_length", &s.ContextLength)
	truncates := false
	if m.flag("allow_auto_truncate", &truncates); truncates {
		m.fail("allow_auto_truncate", "true", "false: prompts are not cut to the longest sequence, longer ones are rejected and counted")
	}
	m.limit("max_running_requests", &s.MaxRunning)
	m.limit("prefill_max_requests", &s.PrefillRequests)
	m.size("decode_log_interval", &s.LogInterval)
	m.flag("overlap", &overlap)
	m.flag("ignore_eos", &s.IgnoreEOS)
	m.flag("enable_mixed_chunk", &s.MixedChunk)
	m.count("num_reserved_decode_tokens", &s.ReservedDecode)
	if how := m.choice("load_balance_method", sglang.Balances()...); how != "" {
		s.LoadBalance = how
	}
	m.limit("sliding_window_size", &s.Window)
	if m.number("swa_full_tokens_ratio", &s.WindowShare) && !(s.WindowShare > 0 && s.WindowShare <= 1) {
		m.fail("swa_full_tokens_ratio", string(m.values["swa_full_tokens_ratio"]), "a share above 0, at most 1")
	}
	m.flag("disable_hybrid_swa_memory", &s.NoWindowPool)
	m.readSpeculation(s)
	s.NoOverlap = !overlap
	m.readPriorities(s)
	m.readHiCache(&s.HiCache)
	m.readEviction(s)
	for _, key := range m.asked[given:] {
		if value, ok := m.values[key]; ok && r.compat {
			m.fail(key, excerpt.CutLine(value), "SGLang's own rules with it: no compat")
		}
	}
	r.err = m.err
}
