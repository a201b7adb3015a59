package sglang

import (
	"cmp"
	"strconv"

	"github.com/replay-llm/replay/schema"
)

// Settings are the arguments that only SGLang engines have, as the server accepts them.
type Settings struct {
	Policy           string     // "fifo" or "fcfs", "lpm", "lof", "hrrn", "shortest-prefill-first" or "random"; other strings count as fifo, and with compat also the last four
	PageTokens       int        // page_size, an alias of block_size, as given; 0: not given
	MaxPrefillTokens int        // maximum prompt tokens per pass; default 16384
	ChunkTokens      int        // chunked_prefill_size: maximum prompt tokens of one request per pass; default 8192
	ClipNewTokens    int        // maximum number of answer tokens to reserve per request; default 4096
	Conservativeness float64    // factor on the share of answer tokens that is reserved; default 1
	ContextLength    int        // context_length, an alias of max_model_len, as given; 0: not given
	PrefillRequests  int        // prefill_max_requests: maximum requests in a pass with prompts; 0: no limit
	LogInterval      int        // decode_log_interval: decode-only passes between publications of KV events; 0: DefaultLogInterval
	MaxRunning       int        // max_running_requests; 0: no limit
	NoOverlap        bool       // a pass is planned after the previous pass has ended, not while it runs
	MixedChunk       bool       // enable_mixed_chunk: running requests decode in the passes that compute prompts; default false
	IgnoreEOS        bool       // requests use all their answer tokens, and memory is reserved for all of them; default false
	DecodeInterval   int        // prefill_decode_interval: decode-only passes between two passes with prompts; default 0
	IntervalSeats    int        // prefill_decode_interval_min_bs: minimum running requests for DecodeInterval; default 0
	Priorities       Priorities // default none; with priorities, Threshold defaults to 10
	Eviction         Eviction   // radix_eviction_policy, default lru
	LoadBalance      string     // load_balance_method: policy that assigns requests to the ranks of a worker; "": auto
	Window           int        // sliding_window_size: window in tokens of layers with a separate pool; 0: no layer has a window
	WindowShare      float64    // swa_full_tokens_ratio: size of the pool of layers with windows, relative to the other pool's tokens; 0: 0.8
	NoWindowPool     bool       // disable_hybrid_swa_memory: layers with a window keep all tokens
	HiCache          HiCacheSettings
	ReservedDecode   int  // num_reserved_decode_tokens: tokens that decode workers keep free per request; 0: 512
	PageGiven        bool // page_size was given
	ChunkGiven       bool // chunked_prefill_size was given
	Drafts           DraftSettings
}

// DefaultLogInterval is the default of decode_log_interval, in passes.
const DefaultLogInterval = 40

// PolicyNames returns the names of the queue policies, including the names of the reference.
func PolicyNames() []string {
	return []string{"fifo", "fcfs", "lpm", "lof", "hrrn", "shortest-prefill-first", "random"}
}

// LPM reports whether the queue policy is lpm: longest cached prefix first.
func (s *Settings) LPM() bool { return s.Policy == "lpm" }

// defaultReserve is the default of num_reserved_decode_tokens.
const defaultReserve = 512

// Complete returns s with the defaults of a server, and without settings that have no effect.
func (s Settings) Complete() Settings {
	s.LogInterval = cmp.Or(s.LogInterval, DefaultLogInterval)
	s.ReservedDecode = cmp.Or(s.ReservedDecode, defaultReserve)
	s.MixedChunk = s.MixedChunk && s.Drafts.Mixes()
	s.Window = s.PoolWindow()
	return s
}

// Declare declares the members of the object sglang.
func (s *Settings) Declare(d *schema.Decl) {
	d.Alone("sglang")
	d.String(&s.Policy, schema.Row{
		Key: "schedule_policy", Value: "fifo", Help: "order of the waiting queue, by `name`: fifo, lpm, lof, hrrn, shortest-prefill-first or random", Kind: schema.Name, After: "startup-time", Names: PolicyNames(),
		Log:  "sglang:schedule_policy",
		File: schema.File{Place: 240, Help: "order of the waiting queue of an SGLang worker"},
		Doc:  schema.Doc{Text: "order of the queue: fifo (also fcfs), lpm (longest cached prefix first), lof (longest output first), hrrn (highest response ratio next), shortest-prefill-first (fewest prompt tokens to compute first) or random. The last four are not supported with `--compat`"},
	})
	s.PageGiven = d.Size(&s.PageTokens, schema.Row{
		Key: "page_size", Default: "1", Help: "another name of --block-size, in `tokens`", Sets: "block_size", Alike: true, After: "block-size",
		Doc: schema.Doc{Default: "-", Text: "another name of `block_size`"},
	})
	d.Size(&s.MaxPrefillTokens, schema.Row{
		Key: "max_prefill_tokens", Value: 16384, Help: "maximum number of prompt `tokens` per pass", After: "schedule-policy",
		Log:  "sglang:max_prefill_tokens",
		File: schema.File{Place: 220, Help: "maximum number of prompt tokens that an SGLang worker computes per pass"},
	})
	s.ChunkGiven = d.Size(&s.ChunkTokens, schema.Row{
		Key: "chunked_prefill_size", Value: 8192, Help: "maximum number of prompt `tokens` of one request per pass",
		Log:  "sglang:chunked_prefill_size",
		File: schema.File{Place: 210, Help: "maximum number of prompt tokens of one request that an SGLang worker computes per pass"},
		Knob: schema.Knob{Label: "chunked_prefill_size (SGLang)", Preset: "8192", Steps: "512 1024 2048 4096 8192 16384"},
		Doc:  schema.Doc{Text: "maximum number of prompt tokens of one request per pass, must be a multiple of `block_size`"},
	})
	d.Size(&s.ClipNewTokens, schema.Row{
		Key: "clip_max_new_tokens", Value: 4096, Help: "maximum number of answer `tokens` per request that memory is reserved for",
		Doc: schema.Doc{Text: "maximum number of answer tokens per request that memory is reserved for"},
	})
	d.Number(&s.Conservativeness, schema.Row{
		Key: "schedule_conservativeness", Value: 1.0, Help: "`factor` on the memory reserved for answers",
		Log:  "sglang:schedule_conservativeness",
		File: schema.File{Place: 250, Help: "factor on the memory that an SGLang worker reserves for answers"},
		Doc:  schema.Doc{Unit: "-", Text: "factor on the memory reserved for answers"},
	})
	own := d.Own()
	s.declareLimits(d)
	s.declarePasses(d)
	s.declareWindows(d)
	s.Drafts.declare(d, &s.MaxRunning)
	s.declarePriorities(d)
	s.HiCache.declare(d)
	s.declareEviction(d)
	if d.Compat {
		d.RefuseSince(own, "SGLang's own rules: no compat")
	}
}

func (s *Settings) declareLimits(d *schema.Decl) {
	d.Count(&s.ContextLength, schema.Row{
		Key: "context_length", Default: "the model's", Help: "another name of --max-model-len, in `tokens`", Alike: true,
		Doc: schema.Doc{Text: "another name of `max_model_len`"},
	})
	truncates := false
	if d.Bool(&truncates, schema.Row{
		Key: "allow_auto_truncate",
		Doc: schema.Doc{Text: "cut prompts to the maximum sequence length; must be false, as cutting is not simulated"},
	}); truncates {
		d.Fail("allow_auto_truncate", "true", "false: prompts are not cut to the longest sequence, longer ones are rejected and counted")
	}
	d.Limit(&s.MaxRunning, schema.Row{
		Key: "max_running_requests", Default: "unlimited", Help: "`requests` a worker runs at once",
		Log:  "sglang:max_running_requests",
		File: schema.File{Place: 200, Help: "maximum number of requests that run on an SGLang worker at once"},
		Doc:  schema.Doc{Default: "-", Text: "maximum number of requests that run on a worker at once; `null` (flag: unlimited): no limit. A server derives the limit from its memory"},
	})
	d.Limit(&s.PrefillRequests, schema.Row{
		Key: "prefill_max_requests", Default: "unlimited", Help: "maximum number of `requests` in a pass that computes prompts",
		Log:  "sglang:prefill_max_requests",
		File: schema.File{Place: 230, Help: "maximum number of requests in a pass of an SGLang worker that computes prompts"},
		Doc:  schema.Doc{Default: "-", Text: "maximum number of requests in a pass that computes prompts; `null`: no limit"},
	})
	d.Size(&s.LogInterval, schema.Row{
		Key: "decode_log_interval", Default: "40", Help: "number of `passes` without prompts after which KV events are published",
		Log: "sglang:decode_log_interval",
		Doc: schema.Doc{Text: "number of passes without prompts after which KV events are published (docs/rules/sglang.md#kv-events)"},
	})
}

func (s *Settings) declarePasses(d *schema.Decl) {
	overlap := true
	d.Bool(&overlap, schema.Row{
		Key: "overlap", Default: "true", Help: "plan each pass while the previous pass runs; =false disables it", After: "disable-hybrid-swa-memory",
		Log:  "sglang:!disable_overlap_schedule",
		File: schema.File{Place: 270, Help: "an SGLang worker plans each pass while the previous pass runs"},
		Doc:  schema.Doc{Text: "plan each pass while the previous pass runs"},
	})
	s.NoOverlap = !overlap
	d.Bool(&s.IgnoreEOS, schema.Row{
		Key: "ignore_eos", Help: "requests ignore the end-of-sequence token, as in benchmarks: memory is reserved for complete answers", After: "retraction-policy",
		Doc: schema.Doc{Text: "requests ignore the end-of-sequence token, as in benchmarks: memory is reserved for complete answers"},
	})
	d.Bool(&s.MixedChunk, schema.Row{
		Key: "enable_mixed_chunk", Help: "running requests decode in the passes that compute prompts", After: "overlap",
		Log:  "sglang:enable_mixed_chunk",
		File: schema.File{Place: 260, Help: "running requests of SGLang decode in the passes that compute prompts"},
	})
	d.Count(&s.ReservedDecode, schema.Row{
		Key: "num_reserved_decode_tokens", Default: "512", Help: "number `N` of tokens that decode workers keep free per request", After: "load-balance-method",
		Doc: schema.Doc{Unit: "tokens", Text: "number of tokens that decode workers keep free per request"},
	})
	if how := d.Name(schema.Row{
		Key: "load_balance_method", Default: "auto", Help: "method that spreads requests over the ranks of a worker, by `name`; auto: round robin, and by bootstrap room on prefill workers", After: "attn-dp-size", Names: listBalances(),
		Doc: schema.Doc{Text: "method that spreads requests over the ranks of a worker: round_robin, total_requests, total_tokens, follow_bootstrap_room or auto (docs/rules/sglang.md)"},
	}); how != "" {
		s.LoadBalance = how
	}
}

// declareWindows declares the pool of layers with a window.
func (s *Settings) declareWindows(d *schema.Decl) {
	d.Limit(&s.Window, schema.Row{
		Key: "sliding_window_size", Default: "none; with --gpu the model's", Help: "size in `tokens` of the sliding window, for layers with a separate KV pool", After: "decode-log-interval",
		Doc: schema.Doc{Default: "none, with `--model` the model's", Text: "size of the sliding window, for layers with a separate KV pool (docs/rules/sglang.md#windows)"},
	})
	isShare := func(f float64) bool { return f > 0 && f <= 1 }
	d.NumberIn(&s.WindowShare, isShare, "a share above 0, at most 1", schema.Row{
		Key: "swa_full_tokens_ratio", Default: "0.8", Help: "size of the KV pool of layers with a sliding window, as a `share` of the tokens of the other pool",
		Doc: schema.Doc{Text: "size of the KV pool of layers with a sliding window, as a share of the tokens of the other pool, above 0 and at most 1"},
	})
	d.Bool(&s.NoWindowPool, schema.Row{Key: "disable_hybrid_swa_memory", Help: "layers with a sliding window keep all tokens, in one KV pool with other layers"})
}

// PoolShare returns the size of the pool of layers with a window, relative to the other pool's tokens.
func (s *Settings) PoolShare() float64 {
	if s.WindowShare == 0 {
		return 0.8
	}
	return s.WindowShare
}

// PoolWindow returns the window of the layers with a separate pool, or 0 if there are none.
func (s *Settings) PoolWindow() int {
	if s.NoWindowPool {
		return 0
	}
	return s.Window
}

// declarePriorities declares the arguments for priorities, and for the alternation of decode-only passes and passes
// with prompts.
func (s *Settings) declarePriorities(d *schema.Decl) {
	p := &s.Priorities
	spare := false
	d.Bool(&p.On, schema.Row{
		Key: "enable_priority_scheduling", Help: "serve requests of higher priority first, and let them preempt running requests",
		Log: "sglang:enable_priority_scheduling",
		Doc: schema.Doc{Text: "serve requests of higher `priority` (docs/traces.md) first; they may preempt running requests (docs/rules/sglang.md#priorities). Requires schedule policy fcfs or lof; not with `--compat`"},
	})
	d.Bool(&p.LowFirst, schema.Row{
		Key: "schedule_low_priority_values_first", Help: "lower priority values are more urgent",
		Doc: schema.Doc{Text: "lower values of `priority` are more urgent"},
	})
	given := d.Size(&p.Threshold, schema.Row{
		Key: "priority_scheduling_preemption_threshold", Default: "10", Help: "preempt a running request if priorities differ by more than `N`",
		Doc: schema.Doc{Unit: "-", Text: "difference of priorities above which a running request is preempted"},
	})
	d.Bool(&spare, schema.Row{
		Key: "disable_priority_preemption", Help: "do not preempt running requests for requests of higher priority",
		Doc: schema.Doc{Text: "do not preempt running requests for requests of higher priority"},
	})
	if p.On && !given {
		p.Threshold = 10
	}
	p.Preempt = p.On && !spare
	d.Size(&s.DecodeInterval, schema.Row{
		Key: "prefill_decode_interval", Help: "number of `passes` without prompts between two passes with prompts",
		Log: "sglang:prefill_decode_interval",
		Doc: schema.Doc{Text: "number of passes without prompts between two passes with prompts; not with `--compat` or several ranks"},
	})
	d.Size(&s.IntervalSeats, schema.Row{
		Key: "prefill_decode_interval_min_bs", Help: "number of running `requests` below which prefill_decode_interval is ignored",
		Doc: schema.Doc{Text: "number of running requests below which `prefill_decode_interval` is ignored"},
	})
	p.Retract = d.Name(schema.Row{
		Key: "retraction_policy", Default: "length", Help: "running requests that are retracted first when memory is short, by `name`: length (fewest tokens) or priority (least urgent)", Names: []string{"length", "priority"},
		Log: "sglang:retraction_policy",
		Doc: schema.Doc{Text: "running requests that are retracted first when memory is short: length (fewest tokens) or priority (least urgent)"},
	}) == "priority"
	switch {
	case p.On && (s.Policy == "lpm" || s.Policy == "hrrn" || s.Policy == "shortest-prefill-first" || s.Policy == "random"):
		d.FailRule("enable_priority_scheduling", "true", "requires schedule_policy fcfs or lof")
	case p.Retract && !p.On:
		d.FailRule("retraction_policy", `"priority"`, "requires enable_priority_scheduling")
	}
}

// declareEviction declares the eviction policy of the cache and its parameters.
func (s *Settings) declareEviction(d *schema.Decl) {
	const key = "radix_eviction_policy_config"
	name := d.Name(schema.Row{
		Key: "radix_eviction_policy", Default: "lru", Help: "eviction policy of the radix cache, by `name`: lru, lfu, slru, priority or tlru", After: "ignore-eos", Names: listEvictions(),
		Log: "sglang:radix_eviction_policy",
		Doc: schema.Doc{Text: "eviction policy of the radix cache: lru, lfu, slru, priority or tlru (docs/rules/sglang.md#eviction). Not with `--compat`, a KV pool for sliding windows, or HiCache"},
	})
	e := newEviction(name)
	d.Members(schema.Row{
		Key: "radix_eviction_policy_config", Default: "none", Help: "parameters of the radix eviction policy, a `JSON` object",
		Doc: schema.Doc{Text: "parameters of the eviction policy, an object: `protected_threshold` (hits, default 2) for slru; `threshold` and `next_prompt_estimate` (tokens) for tlru"},
	}, func(m *schema.Decl) {
		switch name {
		case "slru":
			m.Size(&e.ProtectedHits, schema.Row{Key: "protected_threshold"})
		case "tlru":
			m.Size(&e.Threshold, schema.Row{Key: "threshold"})
			m.Size(&e.NextPrompt, schema.Row{Key: "next_prompt_estimate"})
		default:
			d.Require(key, "radix_eviction_policy slru or tlru")
			return
		}
		m.RefuseOthers()
	})
	if !d.OK() {
		return
	}
	if name == "tlru" && e.Threshold <= e.NextPrompt {
		d.FailRule("radix_eviction_policy", `"tlru"`, "requires "+key+" with a threshold above its next_prompt_estimate, or all blocks have one rank")
	}
	if name != "" && name != "lru" {
		s.Eviction = e
		switch {
		case s.HiCache.On:
			d.FailRule("radix_eviction_policy", strconv.Quote(name), "not supported with enable_hierarchical_cache")
		case s.Window > 0 && !s.NoWindowPool:
			d.FailRule("radix_eviction_policy", strconv.Quote(name), `not supported with sliding_window_size unless "disable_hybrid_swa_memory" is true`)
		}
	}
}
