package engineargs

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/trtllm"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/arguments"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/schema"
)

// Rows returns the settings of engines, in the order in which they are read.
func Rows() []schema.Row {
	return schema.List(func(d *schema.Decl) { new(Args).declare(d, &Options{}) })
}

// Keys returns the keys of the object, sorted.
func Keys() []string {
	return schema.Keys(func(d *schema.Decl) { new(Args).declare(d, &Options{}) })
}

// declare declares the keys in the order of the reference's errors.
func (a *Args) declare(d *schema.Decl, o *Options) {
	switch d.Name(schema.Row{
		Key: "engine_type", Default: "vllm", Help: "`engine`: vllm, sglang or trtllm", Flag: "engine", After: "max-model-len", Names: []string{"vllm", "sglang", "trtllm"},
		File: schema.File{Place: 120, Default: "vllm", Help: "vllm, sglang or trtllm"},
		Knob: schema.Knob{Label: "Engine", Preset: "vllm"},
		Doc:  schema.Doc{Text: "scheduler: vllm, sglang or trtllm"},
	}) {
	case "sglang":
		a.Engine = SGLang
	case "trtllm":
		a.Engine = TRTLLM
	}
	a.Role = declareRole(d, o.Pool)
	a.declareSizes(d)
	a.declareTimes(d)
	a.declareOrders(d)
	a.declareOthers(d)
	d.Group(schema.Row{Key: "sglang"}, a.SGLang.Declare)
	a.declareTRTLLM(d)
	arguments.DeclareWindows(&a.Settings, d)
	a.declareSpeculative(d)
	a.declareRules(d, o)
	a.checkWarmup(d)
	a.verify(d, o)
}

// declareSizes declares the KV blocks and the limits of a pass.
func (a *Args) declareSizes(d *schema.Decl) {
	d.Count(&a.Blocks, schema.Row{
		Key: "num_gpu_blocks", Value: 16384, Help: "KV `blocks` of a worker",
		File: schema.File{Place: 140, Default: "16384", Help: "KV blocks; default: by gpu and model"},
		Knob: schema.Knob{Label: "KV blocks per worker", Preset: "what fits, or 16384", Steps: "256 512 1024 2048 4096 8192 16384 32768 65536 131072"},
		Doc:  schema.Doc{Text: "KV blocks (SGLang: pages) of a worker, 1 to 2147483647"},
	})
	d.Size(&a.BlockTokens, schema.Row{
		Key: "block_size", Default: "64 for vllm, 16 with --gpu; 1 for sglang; 32 for trtllm", Help: "`tokens` per KV block", Alike: true,
		Log:  "vllm:block_size sglang:page_size",
		File: schema.File{Place: 150, Default: "16", Help: "tokens per KV block"},
		Knob: schema.Knob{Label: "Block size (tokens)", Preset: "the engine's"},
		Doc:  schema.Doc{Default: "vllm 64, with a GPU 16, sglang 1, trtllm 32", Text: "tokens of a block; vllm: a power of two from 2 to 1024; 0 is the default"},
	})
	arguments.DeclareLimits(&a.Settings, d)
	if d.Count(&a.MaxLength, schema.Row{
		Key: "max_model_len", Default: "the model's", Help: "longest sequence, in `tokens` of prompt and answer", Alike: true, After: "gpu-memory-utilization",
		Log:  "vllm:max_model_len vllm:max_seq_len sglang:context_length",
		File: schema.File{Place: 110, Default: "32768", Help: "longest sequence in tokens; default: that of the model"},
		Doc:  schema.Doc{Default: "the model's; without a model, no limit", Text: "longest sequence: longer prompts are rejected, answers end there (docs/hardware.md#the-longest-sequence)"},
	}); d.Compat && a.MaxLength > 0 {
		d.Fail("max_model_len", strconv.Itoa(a.MaxLength), "none with compat: the reference has no longest sequence")
	}
	d.Bool(&a.PrefixCaching, schema.Row{
		Key: "enable_prefix_caching", Value: true, Help: "reuse KV blocks across requests; =false turns it off", After: "max-num-batched-tokens",
		Log:  "vllm:enable_prefix_caching sglang:!disable_radix_cache",
		File: schema.File{Place: 180, Default: "true", Help: "reuse KV blocks across requests"},
		Knob: schema.Knob{Label: "Prefix caching", Preset: "true"},
		Doc:  schema.Doc{Text: "reuse KV blocks across requests"},
	})
	arguments.DeclareChunks(&a.Settings, d)
}

// declareTimes declares the factors and delays of passes, and the link between prefill and decode workers.
func (a *Args) declareTimes(d *schema.Decl) {
	d.Ratio(&a.Speedup, schema.Row{
		Key: "speedup_ratio", Value: 1.0, Help: "divide the time of every pass by `R`; 0 leaves it", After: "acceptance-rate",
		Doc: schema.Doc{Unit: "-", Text: "divides the time of every pass; 0 leaves it"},
	})
	d.Ratio(&a.DecodeSpeedup, schema.Row{
		Key: "decode_speedup_ratio", Value: 1.0, Help: "divide the time of decoding by a further `R`; 0 leaves it unscaled", Alike: true,
		Doc: schema.Doc{Unit: "-", Text: "divides the time of decode passes, after `speedup_ratio`; 0: neither ratio divides it"},
	})
	d.Ranks(&a.DPSize, schema.Row{
		Key: "dp_size", Value: 1, Help: "sglang: `ranks` of a worker over which attention is data parallel, in lockstep; --dp with --gpu", Flag: "attn-dp-size", Only: "sglang", After: "bandwidth-g3-to-g2-gbps",
		Doc: schema.Doc{Text: "data-parallel ranks of a worker, in lockstep, each with separate KV blocks; more than 1 with vLLM's (`scheduler_profile`) or SGLang's own rules; the flag is SGLang's"},
	})
	d.Ratio(&a.StartupSeconds, schema.Row{
		Key: "startup_time", Help: "startup time of a worker that --scale adds, in `seconds`", After: "bandwidth-g2-to-g1-gbps",
		Doc: schema.Doc{Unit: "s", Text: "startup time of a worker that `--scale` adds (docs/coming-from.md)"},
	})
	arguments.DeclareWarmup(&a.Settings, d)
	d.Size(&a.KVBytesPerToken, schema.Row{
		Key: "kv_bytes_per_token", Default: "unknown", Help: "`bytes` of KV cache per token, for handoffs to decode workers and for offload", Alike: true, After: "scheduler-profile",
		Doc: schema.Doc{Text: "KV cache of a token; unknown: handoffs take no time, nothing is offloaded"},
	})
	d.Ratio(&a.TransferGBPerSecond, schema.Row{
		Key: "kv_transfer_bandwidth", Default: "handoffs take no time", Help: "`GB/s` from prefill to decode workers", Alike: true,
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Default: "unset", Text: "link from prefill to decode workers; unset or 0: handoffs take no time"},
	})
	d.Ratio(&a.TransferLatencyMs, schema.Row{
		Key: "kv_transfer_latency_ms", Help: "`ms` of each transfer from prefill to decode workers, whatever its size", Alike: true,
		Doc: schema.Doc{Text: "fixed time of each transfer from prefill to decode workers; SGLang's workers send a prompt in several"},
	})
}

// declareOrders declares the orders of admission and preemption.
func (a *Args) declareOrders(d *schema.Decl) {
	arguments.DeclareOrders(&a.Settings, d)
	a.QueuePolicy = d.Name(schema.Row{
		Key: "router_queue_policy", Names: []string{"fcfs", "lcfs", "wspt", "priority", "wfq", "edf"},
		Doc: schema.Doc{Default: "the router's", Text: "fcfs, lcfs, wspt, priority, wfq or edf; overrides the router's setting"},
	})
}

// PassTimesKey is the key of Args.PassTimes.
const PassTimesKey = "planner_profile_data"

func (a *Args) declareOthers(d *schema.Decl) {
	var passTimes string
	d.File(&passTimes, schema.Row{
		Key: PassTimesKey, Default: "a built-in model", Help: "`file` of measured pass times (.npz)", After: "decode-speedup-ratio",
		Doc: schema.Doc{Unit: "path", Default: "-", Text: "pass times: the profile of `replay calibrate`, a table (`.npz`), or `roofline:GPU/MODEL` (docs/hardware.md#time-of-a-pass); without, a built-in polynomial"},
	})
	a.PassTimes = timing.ParseSource(passTimes)
	d.Other(schema.Path, schema.Row{
		Default: "a built-in model", Help: "`file` of pass times: a profile of replay calibrate, or .npz", Flag: "timing-profile", Sets: PassTimesKey,
		File: schema.File{Place: 280, Default: "profile.json", Help: "measured pass times, instead of data sheets: replay calibrate fits them"},
		Doc:  schema.Doc{Unit: "path", Default: "-", Text: "another name of `--planner-profile-data`"},
	})
	a.AIC.declare(d)
	a.G2.declare(d)
	d.Bool(&a.LocalIndexer, schema.Row{Key: "enable_local_indexer"})
	d.Port(&a.BootstrapPort, schema.Row{Key: "bootstrap_port"})
	d.Port(&a.KVEventsPort, schema.Row{Key: "zmq_kv_events_port"})
	d.Port(&a.ReplayPort, schema.Row{Key: "zmq_replay_port"})
	d.Any(schema.Row{Key: "has_perf_model"}) // accepted and ignored by the reference
	a.Reasoning = declareReasoning(d)
}

// declareRole declares the role of a worker; pool is the default.
func declareRole(d *schema.Decl, pool scheduler.Role) scheduler.Role {
	named := d.Any(schema.Row{
		Key: "worker_type",
		Doc: schema.Doc{Default: "aggregated", Text: "aggregated, prefill or decode"},
	})
	switch named {
	case `"prefill"`:
		return scheduler.Prefill
	case `"decode"`:
		return scheduler.Decode
	}
	var prefill, decode bool
	d.Bool(&prefill, schema.Row{
		Key: "is_prefill",
		Doc: schema.Doc{Text: "older spelling of `worker_type` prefill"},
	})
	d.Bool(&decode, schema.Row{
		Key: "is_decode",
		Doc: schema.Doc{Text: "older spelling of `worker_type` decode"},
	})
	switch {
	case prefill && decode:
		d.Fail("is_decode", "true", "not both is_prefill and is_decode")
	case prefill:
		return scheduler.Prefill
	case decode:
		return scheduler.Decode
	}
	if named != "" {
		return scheduler.Aggregated
	}
	return pool
}

func (c *AIC) declare(d *schema.Decl) {
	d.String(&c.Backend, schema.Row{Key: "aic_backend"})
	d.String(&c.System, schema.Row{Key: "aic_system"})
	d.String(&c.BackendVersion, schema.Row{Key: "aic_backend_version"})
	d.String(&c.ModelPath, schema.Row{Key: "aic_model_path"})
	d.Size(&c.TPSize, schema.Row{Key: "aic_tp_size"})
	d.Size(&c.MoETPSize, schema.Row{Key: "aic_moe_tp_size"})
	d.Size(&c.MoEEPSize, schema.Row{Key: "aic_moe_ep_size"})
	d.Size(&c.AttentionSize, schema.Row{Key: "aic_attention_dp_size"})
}

func (g *G2) declare(d *schema.Decl) {
	d.Count(&g.Blocks, schema.Row{
		Key: "num_g2_blocks", Default: "no offload", Help: "KV `blocks` in host memory, behind those of the GPU", Only: "vllm", After: "kv-transfer-latency-ms",
	})
	d.Ratio(&g.GiB, schema.Row{
		Key: "kv_offload_gib", Default: "no offload", Help: "host memory of a worker in `GiB`, instead of --num-g2-blocks", Only: "vllm",
		Doc: schema.Doc{Unit: "2³⁰ bytes", Default: "-", Text: "host memory of a worker, or of each data-parallel rank, instead of `num_g2_blocks`: as many whole blocks as fit, by `kv_bytes_per_token`"},
	})
	g.Connector = d.Name(schema.Row{
		Key: "kv_offload_connector", Default: "offloading", Help: "`connector` of vLLM to host memory: offloading, its OffloadingConnector; simple, its SimpleCPUOffloadConnector", Only: "vllm", Names: []string{"offloading", SimpleCPU},
		Doc: schema.Doc{Text: "connector of vLLM to host memory: `offloading`, its OffloadingConnector; `simple`, its SimpleCPUOffloadConnector"},
	})
	d.Count(&g.BatchBlocks, schema.Row{
		Key: "offload_batch_size", Value: 32, Help: "KV `blocks` per transfer to the host", Only: "vllm",
		Doc: schema.Doc{Text: "blocks per transfer to the host"},
	})
	d.Ratio(&g.ToHostGBPerSec, schema.Row{
		Key: "bandwidth_g1_to_g2_gbps", Value: 14.0, Help: "`GB/s` to the host; 0: transfers take no time",
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Text: "bandwidth to the host; 0: transfers take no time", Part: "vLLM"},
	})
	d.Ratio(&g.ToGPUGBPerSec, schema.Row{
		Key: "bandwidth_g2_to_g1_gbps", Value: 14.0, Help: "`GB/s` from the host; 0: transfers take no time",
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Text: "bandwidth from the host; 0: transfers take no time", Part: "vLLM"},
	})
	d.Ratio(&g.ToStorageGBPerSec, schema.Row{
		Key: "bandwidth_g2_to_g3_gbps", Default: "5", Help: "sglang: `GB/s` from host memory to storage; 0: transfers take no time", Only: "sglang", After: "hicache-storage-backend-extra-config",
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Text: "for sglang: from host memory to storage; 0: transfers take no time", Part: "vLLM"},
	})
	d.Ratio(&g.FromStorageGBPerSec, schema.Row{
		Key: "bandwidth_g3_to_g2_gbps", Default: "5", Help: "sglang: `GB/s` from storage to host memory; 0: transfers take no time", Only: "sglang",
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Text: "for sglang: from storage to host memory; 0: transfers take no time", Part: "vLLM"},
	})
}

func declareReasoning(d *schema.Decl) (out *Reasoning) {
	d.Members(schema.Row{Key: "reasoning"}, func(m *schema.Decl) {
		for _, key := range []string{"start_thinking_token_id", "end_thinking_token_id", "thinking_ratio"} {
			if !m.Given(key) {
				m.Fail(key, "missing", "a number")
			}
		}
		var start, end int
		out = &Reasoning{}
		m.Size(&start, schema.Row{Key: "start_thinking_token_id"})
		m.Size(&end, schema.Row{Key: "end_thinking_token_id"})
		m.Number(&out.Ratio, schema.Row{Key: "thinking_ratio"})
		if max(start, end) > math.MaxUint32 {
			m.Fail("start_thinking_token_id", strconv.Itoa(max(start, end)), "at most 4294967295")
		}
		out.StartToken, out.EndToken = uint32(start), uint32(end)
	})
	return out
}

// RuleNames returns the names of all rules that scheduler_profile accepts, for all engines.
func RuleNames() []string {
	return slices.Concat(releases.Profiles(), sglang.Profiles(), trtllm.Profiles())
}

// declareRules declares the rules of the scheduler: a named set of rules, then single rules of vLLM.
func (a *Args) declareRules(d *schema.Decl, o *Options) {
	row := schema.Row{
		Key: "scheduler_profile", Default: "reference for vllm, sglang-0.5.23 for sglang, trtllm-1.3 for trtllm", Help: "rules that the scheduler follows: the reference's, or those of a release of its engine, by `name`", After: "timing-profile", Names: RuleNames(),
		File: schema.File{Place: 130, Default: "vllm", Help: "the rules that the scheduler follows, by release"},
		Knob: schema.Knob{Label: "Engine release", Preset: "the rules that fit"},
		Doc:  schema.Doc{Default: "vllm reference, with a GPU the newest release of vLLM; sglang sglang-0.5.23, trtllm trtllm-1.3", Text: "rules that the scheduler follows: reference, or those of a release of vLLM, such as vllm-0.33 or vllm-0.31.0, with a warning for releases that were not compared; vllm is the newest (docs/rules/vllm.md). With SGLang engines sglang-0.5.23, also called sglang, the only one (docs/rules/sglang.md). With TensorRT-LLM engines trtllm-1.3 or trtllm-1.2, by its published source, not compared with the engine (docs/rules/trtllm.md)", Part: "vLLM"},
	}
	switch {
	case a.Engine == SGLang && d.Compat:
		row.Names = []string{"reference"}
	case a.Engine == SGLang:
		row.Names = sglang.Profiles()
	case a.Engine == TRTLLM:
		row.Names = trtllm.Profiles()
		a.Profile = cmp.Or(d.Name(row), trtllm.Newest)
		return
	case !d.Listing():
		row.Names = releases.Profiles()
	}
	if a.Engine == SGLang {
		d.Name(row)
		a.checkHost(d)
		return
	}
	name, isRelease := releases.ParseRelease(d.Raw(row.Key))
	if !isRelease {
		name = d.Name(row)
	}
	if rules, err := releases.ParseProfile(name); err == nil {
		a.Rules, a.Profile, a.Uncertain = rules, releases.NameProfile(name), releases.Uncertainty(name)
	}
	given := false
	d.Members(schema.Row{
		Key: "scheduler_rules",
		Doc: schema.Doc{Default: "the profile's", Text: "an object of single rules that win over the profile: `mixed_step`, `budget_gate`, ... (docs/rules/vllm.md)", Part: "vLLM"},
	}, func(m *schema.Decl) {
		given = true
		a.setAsync(m)
		arguments.DeclareRules(&a.Rules, m)
		m.RefuseUnknown()
	})
	if !given && !a.Rules.Reference() {
		a.setAsync(&schema.Decl{})
	}
	a.checkRules(d, o)
}

// checkRules rejects settings that the chosen rules do not support.
func (a *Args) checkRules(d *schema.Decl, o *Options) {
	if !d.OK() || a.Rules.Reference() && o.Incomplete {
		return
	}
	if !a.Rules.Reference() {
		if d.Compat {
			d.Fail("scheduler_profile", "vLLM's own", `"reference" with compat`)
		}
		a.checkSpeculative(d)
		return
	}
	const own = "vLLM's own rules: scheduler_profile vllm"
	if a.Scheduling == vllm.ByPriority {
		d.FailRule("scheduling_policy", `"priority"`, "requires "+own)
	}
	if a.Windows.Given() {
		d.FailRule("sliding_window", strconv.Itoa(a.Windows.Tokens), "requires "+own)
	}
	if a.Speculative != nil {
		d.Require("speculative_config", own)
	}
	if a.PrefillInterval > 1 {
		d.FailRule("prefill_schedule_interval", strconv.Itoa(a.PrefillInterval), "requires "+own)
	}
}
