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
		Doc:  schema.Doc{Text: "inference engine of the workers: vllm, sglang or trtllm"},
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
	d.Group(schema.Row{
		Key: "sglang",
		Doc: schema.Doc{Text: "settings of SGLang engines, an object"},
	}, a.SGLang.Declare)
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
		Key: "num_gpu_blocks", Value: 16384, Help: "number of KV `blocks` per worker",
		File: schema.File{Place: 140, Default: "16384", Help: "number of KV blocks per worker; default: computed from gpu and model"},
		Knob: schema.Knob{Label: "KV blocks per worker", Preset: "what fits, or 16384", Steps: "256 512 1024 2048 4096 8192 16384 32768 65536 131072"},
		Doc:  schema.Doc{Text: "number of KV blocks (SGLang: pages) per worker, 1 to 2147483647"},
	})
	d.Size(&a.BlockTokens, schema.Row{
		Key: "block_size", Default: "64 for vllm, 16 with --gpu; 1 for sglang; 32 for trtllm", Help: "`tokens` per KV block", Alike: true,
		Log:  "vllm:block_size sglang:page_size",
		File: schema.File{Place: 150, Default: "16", Help: "tokens per KV block"},
		Knob: schema.Knob{Label: "Block size (tokens)", Preset: "the engine's"},
		Doc:  schema.Doc{Default: "vllm 64, with a GPU 16, sglang 1, trtllm 32", Text: "number of tokens per KV block; vllm: a power of two from 2 to 1024; 0: the default"},
	})
	arguments.DeclareLimits(&a.Settings, d)
	if d.Count(&a.MaxLength, schema.Row{
		Key: "max_model_len", Default: "the model's", Help: "maximum sequence length (prompt and answer) in `tokens`", Alike: true, After: "gpu-memory-utilization",
		Log:  "vllm:max_model_len vllm:max_seq_len sglang:context_length",
		File: schema.File{Place: 110, Default: "32768", Help: "maximum length of a sequence (prompt and answer), in tokens; default: the model's"},
		Doc:  schema.Doc{Default: "the model's; without a model, no limit", Text: "maximum length of a sequence: longer prompts are rejected, and answers end at this length (docs/hardware.md#the-longest-sequence)"},
	}); d.Compat && a.MaxLength > 0 {
		d.Fail("max_model_len", strconv.Itoa(a.MaxLength), "none with compat: the reference has no longest sequence")
	}
	d.Bool(&a.PrefixCaching, schema.Row{
		Key: "enable_prefix_caching", Value: true, Help: "reuse cached KV blocks of equal prompt prefixes; =false disables it", After: "max-num-batched-tokens",
		Log:  "vllm:enable_prefix_caching sglang:!disable_radix_cache",
		File: schema.File{Place: 180, Default: "true", Help: "reuse cached KV blocks of equal prompt prefixes"},
		Knob: schema.Knob{Label: "Prefix caching", Preset: "true"},
		Doc:  schema.Doc{Text: "reuse cached KV blocks of equal prompt prefixes"},
	})
	arguments.DeclareChunks(&a.Settings, d)
}

// declareTimes declares the factors and delays of passes, and the link between prefill and decode workers.
func (a *Args) declareTimes(d *schema.Decl) {
	d.Ratio(&a.Speedup, schema.Row{
		Key: "speedup_ratio", Value: 1.0, Help: "divide the time of every pass by `R`; 0: no change", After: "acceptance-rate",
		Doc: schema.Doc{Unit: "-", Text: "factor that divides the time of every pass; 0: no change"},
	})
	d.Ratio(&a.DecodeSpeedup, schema.Row{
		Key: "decode_speedup_ratio", Value: 1.0, Help: "divide the time of decode passes by `R`, after --speedup-ratio; 0: neither ratio applies to them", Alike: true,
		Doc: schema.Doc{Unit: "-", Text: "factor that divides the time of decode passes, after `speedup_ratio`; 0: neither ratio applies to them"},
	})
	d.Ranks(&a.DPSize, schema.Row{
		Key: "dp_size", Value: 1, Help: "sglang: number of data-parallel attention `ranks` per worker, which run in lockstep; with --gpu use --dp", Flag: "attn-dp-size", Only: "sglang", After: "bandwidth-g3-to-g2-gbps",
		Doc: schema.Doc{Text: "number of data-parallel ranks per worker, which run in lockstep, each with separate KV blocks. More than 1 requires vLLM's (`scheduler_profile`) or SGLang's own rules. The flag is for SGLang only"},
	})
	d.Ratio(&a.StartupSeconds, schema.Row{
		Key: "startup_time", Help: "startup time of a worker that --scale adds, in `seconds`", After: "bandwidth-g2-to-g1-gbps",
		Doc: schema.Doc{Unit: "s", Text: "startup time of a worker that `--scale` adds (docs/coming-from.md)"},
	})
	arguments.DeclareWarmup(&a.Settings, d)
	d.Size(&a.KVBytesPerToken, schema.Row{
		Key: "kv_bytes_per_token", Default: "unknown", Help: "`bytes` of KV cache per token; transfers to decode workers and KV offload require it", Alike: true, After: "scheduler-profile",
		Doc: schema.Doc{Text: "bytes of KV cache per token; unknown: transfers to decode workers take no time, and nothing is offloaded"},
	})
	d.Ratio(&a.TransferGBPerSecond, schema.Row{
		Key: "kv_transfer_bandwidth", Default: "transfers take no time", Help: "bandwidth in `GB/s` from prefill to decode workers", Alike: true,
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Default: "unset", Text: "bandwidth from prefill to decode workers; unset or 0: transfers take no time"},
	})
	d.Ratio(&a.TransferLatencyMs, schema.Row{
		Key: "kv_transfer_latency_ms", Help: "fixed latency in `ms` of each transfer from prefill to decode workers", Alike: true,
		Doc: schema.Doc{Text: "fixed latency of each transfer from prefill to decode workers; SGLang's workers send a prompt in several transfers"},
	})
}

// declareOrders declares the orders of admission and preemption.
func (a *Args) declareOrders(d *schema.Decl) {
	arguments.DeclareOrders(&a.Settings, d)
	a.QueuePolicy = d.Name(schema.Row{
		Key: "router_queue_policy", Names: []string{"fcfs", "lcfs", "wspt", "priority", "wfq", "edf"},
		Doc: schema.Doc{Default: "the router's", Text: "order of requests in the queue of the KV router: fcfs, lcfs, wspt, priority, wfq or edf; overrides `--router-queue-policy`"},
	})
}

// PassTimesKey is the key of Args.PassTimes.
const PassTimesKey = "planner_profile_data"

func (a *Args) declareOthers(d *schema.Decl) {
	var passTimes string
	d.File(&passTimes, schema.Row{
		Key: PassTimesKey, Default: "a built-in model", Help: "`file` of measured pass times, an .npz table", After: "decode-speedup-ratio",
		Doc: schema.Doc{Unit: "path", Default: "-", Text: "pass times: a profile of `replay calibrate`, an `.npz` table, or `roofline:GPU/MODEL` (docs/hardware.md#time-of-a-pass). Default: a built-in polynomial"},
	})
	a.PassTimes = timing.ParseSource(passTimes)
	d.Other(schema.Path, schema.Row{
		Default: "a built-in model", Help: "`file` of pass times: a profile written by replay calibrate, or an .npz table", Flag: "timing-profile", Sets: PassTimesKey,
		File: schema.File{Place: 280, Default: "profile.json", Help: "file of pass times, written by replay calibrate, instead of data sheets"},
		Doc:  schema.Doc{Unit: "path", Default: "-", Text: "file of pass times; another name of `--planner-profile-data`"},
	})
	a.AIC.declare(d)
	a.G2.declare(d)
	d.Bool(&a.LocalIndexer, schema.Row{
		Key: "enable_local_indexer",
		Doc: schema.Doc{Text: "enable the local KV indexer of a Dynamo worker", Part: schema.NoEffect},
	})
	d.Port(&a.BootstrapPort, schema.Row{
		Key: "bootstrap_port",
		Doc: schema.Doc{Unit: "port", Default: "-", Text: "port at which a prefill worker listens for decode workers", Part: schema.NoEffect},
	})
	d.Port(&a.KVEventsPort, schema.Row{
		Key: "zmq_kv_events_port",
		Doc: schema.Doc{Unit: "port", Default: "-", Text: "port of the KV events of a worker process (`replay worker`)", Part: schema.NoEffect},
	})
	d.Port(&a.ReplayPort, schema.Row{
		Key: "zmq_replay_port",
		Doc: schema.Doc{Unit: "port", Default: "-", Text: "port at which subscribers of a worker process (`replay worker`) request missed KV events", Part: schema.NoEffect},
	})
	d.Any(schema.Row{
		Key: "has_perf_model",
		Doc: schema.Doc{Text: "ignored, as in dynamo.replay", Part: schema.NoEffect},
	})
	a.Reasoning = declareReasoning(d)
}

// declareRole declares the role of a worker; pool is the default.
func declareRole(d *schema.Decl, pool scheduler.Role) scheduler.Role {
	named := d.Any(schema.Row{
		Key: "worker_type",
		Doc: schema.Doc{Default: "aggregated", Text: "role of the workers: aggregated (prefill and decode), prefill or decode"},
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
		Doc: schema.Doc{Text: "older form of `worker_type` prefill"},
	})
	d.Bool(&decode, schema.Row{
		Key: "is_decode",
		Doc: schema.Doc{Text: "older form of `worker_type` decode"},
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
	d.String(&c.Backend, schema.Row{
		Key: "aic_backend",
		Doc: schema.Doc{Text: "engine name for AIConfigurator; a run with this setting is rejected", Part: schema.NoEffect},
	})
	d.String(&c.System, schema.Row{
		Key: "aic_system",
		Doc: schema.Doc{Text: "GPU name for AIConfigurator", Part: schema.NoEffect},
	})
	d.String(&c.BackendVersion, schema.Row{
		Key: "aic_backend_version",
		Doc: schema.Doc{Text: "engine version for AIConfigurator", Part: schema.NoEffect},
	})
	d.String(&c.ModelPath, schema.Row{
		Key: "aic_model_path",
		Doc: schema.Doc{Text: "model name for AIConfigurator", Part: schema.NoEffect},
	})
	d.Size(&c.TPSize, schema.Row{
		Key: "aic_tp_size",
		Doc: schema.Doc{Default: "-", Text: "tensor parallelism for AIConfigurator", Part: schema.NoEffect},
	})
	d.Size(&c.MoETPSize, schema.Row{
		Key: "aic_moe_tp_size",
		Doc: schema.Doc{Default: "-", Text: "tensor parallelism of experts for AIConfigurator", Part: schema.NoEffect},
	})
	d.Size(&c.MoEEPSize, schema.Row{
		Key: "aic_moe_ep_size",
		Doc: schema.Doc{Default: "-", Text: "expert parallelism for AIConfigurator", Part: schema.NoEffect},
	})
	d.Size(&c.AttentionSize, schema.Row{
		Key: "aic_attention_dp_size",
		Doc: schema.Doc{Default: "-", Text: "data parallelism of attention for AIConfigurator", Part: schema.NoEffect},
	})
}

func (g *G2) declare(d *schema.Decl) {
	d.Count(&g.Blocks, schema.Row{
		Key: "num_g2_blocks", Default: "no offload", Help: "number of KV `blocks` in host memory per worker, for KV offload", Only: "vllm", After: "kv-transfer-latency-ms",
	})
	d.Ratio(&g.GiB, schema.Row{
		Key: "kv_offload_gib", Default: "no offload", Help: "host memory per worker for KV offload in `GiB`, instead of --num-g2-blocks", Only: "vllm",
		Doc: schema.Doc{Unit: "2³⁰ bytes", Default: "-", Text: "host memory for KV offload per worker, or per data-parallel rank; replaces `num_g2_blocks`. `kv_bytes_per_token` sets how many blocks fit"},
	})
	g.Connector = d.Name(schema.Row{
		Key: "kv_offload_connector", Default: "offloading", Help: "vLLM `connector` for KV offload: offloading (OffloadingConnector) or simple (SimpleCPUOffloadConnector)", Only: "vllm", Names: []string{"offloading", SimpleCPU},
		Doc: schema.Doc{Text: "vLLM connector for KV offload: `offloading` (OffloadingConnector) or `simple` (SimpleCPUOffloadConnector)"},
	})
	d.Count(&g.BatchBlocks, schema.Row{
		Key: "offload_batch_size", Value: 32, Help: "number of KV `blocks` per transfer to host memory", Only: "vllm",
		Doc: schema.Doc{Text: "number of KV blocks per transfer to host memory"},
	})
	d.Ratio(&g.ToHostGBPerSec, schema.Row{
		Key: "bandwidth_g1_to_g2_gbps", Value: 14.0, Help: "bandwidth in `GB/s` from the GPU to host memory; 0: transfers take no time",
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Text: "bandwidth from the GPU to host memory; 0: transfers take no time", Part: "vLLM"},
	})
	d.Ratio(&g.ToGPUGBPerSec, schema.Row{
		Key: "bandwidth_g2_to_g1_gbps", Value: 14.0, Help: "bandwidth in `GB/s` from host memory to the GPU; 0: transfers take no time",
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Text: "bandwidth from host memory to the GPU; 0: transfers take no time", Part: "vLLM"},
	})
	d.Ratio(&g.ToStorageGBPerSec, schema.Row{
		Key: "bandwidth_g2_to_g3_gbps", Default: "5", Help: "sglang: bandwidth in `GB/s` from host memory to storage; 0: transfers take no time", Only: "sglang", After: "hicache-storage-backend-extra-config",
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Text: "bandwidth from host memory to storage, for SGLang only; 0: transfers take no time", Part: "vLLM"},
	})
	d.Ratio(&g.FromStorageGBPerSec, schema.Row{
		Key: "bandwidth_g3_to_g2_gbps", Default: "5", Help: "sglang: bandwidth in `GB/s` from storage to host memory; 0: transfers take no time", Only: "sglang",
		Doc: schema.Doc{Unit: "10⁹ bytes/s", Text: "bandwidth from storage to host memory, for SGLang only; 0: transfers take no time", Part: "vLLM"},
	})
}

func declareReasoning(d *schema.Decl) (out *Reasoning) {
	d.Members(schema.Row{
		Key: "reasoning",
		Doc: schema.Doc{Text: "reasoning tokens of answers, an object", Part: schema.NoEffect},
	}, func(m *schema.Decl) {
		for _, key := range []string{"start_thinking_token_id", "end_thinking_token_id", "thinking_ratio"} {
			if !m.Given(key) {
				m.Fail(key, "missing", "a number")
			}
		}
		var start, end int
		out = &Reasoning{}
		m.Size(&start, schema.Row{
			Key: "start_thinking_token_id",
			Doc: schema.Doc{Default: "required", Text: "token id that starts the reasoning part of an answer", Part: schema.NoEffect},
		})
		m.Size(&end, schema.Row{
			Key: "end_thinking_token_id",
			Doc: schema.Doc{Default: "required", Text: "token id that ends the reasoning part of an answer", Part: schema.NoEffect},
		})
		m.Number(&out.Ratio, schema.Row{
			Key: "thinking_ratio",
			Doc: schema.Doc{Unit: "share", Default: "required", Text: "share of answer tokens in the reasoning part", Part: schema.NoEffect},
		})
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
		Key: "scheduler_profile", Default: "reference for vllm, sglang-0.5.23 for sglang, trtllm-1.3 for trtllm", Help: "rules of the scheduler, by `name`: reference (those of dynamo.replay), or a release of the engine, such as vllm-0.33", After: "timing-profile", Names: RuleNames(),
		File: schema.File{Place: 130, Default: "vllm", Help: "rules of the scheduler, by release of the engine"},
		Knob: schema.Knob{Label: "Engine release", Preset: "the rules that fit"},
		Doc:  schema.Doc{Default: "vllm reference, with a GPU the newest release of vLLM; sglang sglang-0.5.23, trtllm trtllm-1.3", Text: "rules of the scheduler: reference (those of dynamo.replay), or a release of vLLM, such as vllm-0.33 or vllm-0.31.0; vllm is the newest. A release that was not compared with the simulation gives a warning (docs/rules/vllm.md). SGLang: sglang-0.5.23, also called sglang (docs/rules/sglang.md). TensorRT-LLM: trtllm-1.3 or trtllm-1.2, by its published source, not compared with the engine (docs/rules/trtllm.md)", Part: "vLLM"},
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
