package engineargs

import (
	"strconv"

	"github.com/replay-llm/replay/scheduler/trtllm"
	"github.com/replay-llm/replay/schema"
)

// declareTRTLLM declares the arguments of TensorRT-LLM engines, and rejects arguments that only other engines have.
func (a *Args) declareTRTLLM(d *schema.Decl) {
	d.Group(schema.Row{
		Key: "trtllm",
		Doc: schema.Doc{Text: "settings of TensorRT-LLM engines, an object"},
	}, a.TRTLLM.Declare)
	if a.Engine != TRTLLM {
		if d.Given("trtllm") {
			d.Require("trtllm", "engine_type trtllm")
		}
		a.TRTLLM = trtllm.Settings{}
		return
	}
	for _, x := range []struct{ key, want string }{
		{"max_num_seqs", "trtllm.max_batch_size instead of it"},
		{"max_num_batched_tokens", "trtllm.max_num_tokens instead of it"},
		{"enable_chunked_prefill", "trtllm.enable_chunked_prefill instead of it"},
		{"num_g2_blocks", "trtllm.host_cache_size instead of it"}, {"kv_offload_gib", "trtllm.host_cache_size instead of it"},
		{"kv_offload_connector", "none with trtllm"},
		{"preemption_mode", "none with trtllm"}, {"max_num_active_seqs", "none with trtllm"},
		{"prefill_schedule_interval", "none with trtllm"}, {"scheduling_policy", "none with trtllm"},
		{"scheduler_rules", "none with trtllm"}, {"sliding_window", "none with trtllm: its pools for windows are not simulated"},
		{"speculative_config", "none with trtllm: its drafts are not simulated"},
	} {
		if d.Given(x.key) {
			d.FailText(x.key, x.want)
		}
	}
	if d.Compat {
		d.Fail("engine_type", `"trtllm"`, "vllm or sglang with compat")
	}
	a.MaxSeqs, a.MaxBatchedTokens = a.TRTLLM.MaxBatch, a.TRTLLM.MaxTokens
}

// checkTRTLLM sets the block size and rejects inconsistent arguments. Incomplete arguments may lack dp_size.
func (a *Args) checkTRTLLM(incomplete bool) error {
	s := &a.TRTLLM
	if a.BlockTokens == 0 {
		a.BlockTokens = trtllm.DefaultBlock
	}
	switch {
	case s.MaxBatch == 0:
		return refuseValue("trtllm.max_batch_size", "0", "at least 1")
	case s.MaxTokens < a.BlockTokens:
		return refuseValue("trtllm.max_num_tokens", strconv.Itoa(s.MaxTokens), "at least block_size, which is "+strconv.Itoa(a.BlockTokens))
	case s.Policy == trtllm.Policies()[trtllm.MaxRequests] && a.PrefixCaching:
		return requireOther("trtllm.capacity_scheduler_policy", strconv.Quote(s.Policy), "enable_prefix_caching false, as its engines have no KV blocks")
	case s.HostBytes > 0 && !a.PrefixCaching:
		return refuseValue("trtllm.host_cache_size", strconv.Itoa(s.HostBytes), "0 without enable_prefix_caching")
	case s.Answer > 100:
		return refuseValue("trtllm.decode_retention_priority", strconv.Itoa(s.Answer), "0 to 100")
	case s.RetentionOf() != nil && !a.PrefixCaching:
		return refuseValue("enable_prefix_caching", "false", "true with retention priorities")
	case s.Balance.On && a.DPSize == 1 && !incomplete:
		return requireOther("trtllm.enable_balance", "true", "dp_size above 1")
	}
	return nil
}
