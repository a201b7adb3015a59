package trtllm

import (
	"cmp"
	"strconv"

	"github.com/replay-llm/replay/schema"
	"github.com/replay-llm/replay/sim"
)

// Settings are the arguments of TensorRT-LLM engines, as the server accepts them.
type Settings struct {
	MaxBatch  int     // max_batch_size; default 2048
	MaxTokens int     // max_num_tokens; default 8192
	Policy    string  // capacity_scheduler_policy; default GUARANTEED_NO_EVICT
	Chunked   bool    // enable_chunked_prefill; default false
	Chunking  string  // context_chunking_policy; default FIRST_COME_FIRST_SERVED
	NoOverlap bool    // disable_overlap_scheduler; default false
	Partial   bool    // enable_partial_reuse; default true
	Copy      bool    // copy_on_partial_reuse; default true
	WaitIters int     // batch_wait_timeout_iters; default 0
	WaitRatio float64 // batch_wait_max_tokens_ratio; default 0
	HostBytes int     // host_cache_size: bytes of host memory for the KV blocks of a rank; default 0
	Waiting   string  // waiting_queue_policy; default fcfs
	Events    int     // event_buffer_max_size: maximum number of KV events per pass; default 0, no limit
	Ranges    string  // token_range_retention, parsed by ParseRanges
	Answer    int     // decode_retention_priority; default 35
	AnswerMs  int     // decode_duration_ms; default 0, forever
	Balance   Balance
}

// Balance configures how ranks of data-parallel attention wait for each other's prompts: attention_dp_config.
type Balance struct {
	On           bool // enable_balance; default false
	TimeoutIters int  // timeout_iters; default 50
	WaitIters    int  // batching_wait_iters; default 10
}

// DefaultBlock is the default number of tokens per block.
const DefaultBlock = 32

// WaitingPolicies returns the allowed values of waiting_queue_policy, the default first.
func WaitingPolicies() []string { return []string{"fcfs", "priority"} }

// RetentionOf returns the retention priorities, or nil if all blocks have DefaultPriority.
func (s *Settings) RetentionOf() *Retention {
	if s.Ranges == "" && s.Answer == DefaultPriority {
		return nil
	}
	r := &Retention{Answer: s.Answer, AnswerFor: sim.Time(s.AnswerMs)}
	if s.Ranges != "" {
		r.Ranges, _ = ParseRanges(s.Ranges) // Declare has refused invalid ranges
	}
	return r
}

// ChunkingOf returns the policy for cutting prompts.
func (s *Settings) ChunkingOf() Chunking {
	switch {
	case !s.Chunked:
		return Whole
	case s.Chunking == chunkingNames()[1]:
		return EqualProgress
	}
	return FirstCome
}

// Declare declares the members of the object trtllm.
func (s *Settings) Declare(d *schema.Decl) {
	d.Alone("trtllm")
	own := d.Own()
	d.Size(&s.MaxBatch, schema.Row{
		Key: "max_batch_size", Value: 2048, Help: "maximum number of `requests` that are active on a worker at once", After: "num-reserved-decode-tokens",
		File: schema.File{Place: 300, Help: "maximum number of requests that are active on a TensorRT-LLM worker at once"},
		Doc:  schema.Doc{Text: "maximum number of requests that are active on a worker at once"},
	})
	d.Size(&s.MaxTokens, schema.Row{
		Key: "max_num_tokens", Value: 8192, Help: "maximum number of `tokens` per pass",
		File: schema.File{Place: 310, Help: "maximum number of tokens that a TensorRT-LLM worker computes per pass"},
		Knob: schema.Knob{Label: "max_num_tokens (TensorRT-LLM)", Preset: "8192", Steps: "512 1024 2048 4096 8192 16384"},
		Doc:  schema.Doc{Text: "maximum number of tokens per pass; without chunked prefill, longer prompts are rejected"},
	})
	s.Policy = cmp.Or(d.Name(schema.Row{
		Key: "capacity_scheduler_policy", Default: Policies()[0], Help: "policy that admits requests, by `name`: GUARANTEED_NO_EVICT, MAX_UTILIZATION, STATIC_BATCH or MAX_REQUESTS", Names: Policies(),
		File: schema.File{Place: 320, Help: "policy by which a TensorRT-LLM worker admits requests"},
		Knob: schema.Knob{Label: "Capacity policy (TensorRT-LLM)", Preset: Policies()[0]},
		Doc:  schema.Doc{Text: "policy that admits requests: GUARANTEED_NO_EVICT, MAX_UTILIZATION, STATIC_BATCH or MAX_REQUESTS (docs/rules/trtllm.md#capacity)"},
	}), Policies()[0])
	d.Bool(&s.Chunked, schema.Row{
		Key: "enable_chunked_prefill", Flag: "enable-chunked-context", Help: "split prompts that exceed the free tokens of a pass",
		File: schema.File{Place: 330, Help: "split prompts that exceed the free tokens of a pass of a TensorRT-LLM worker"},
		Knob: schema.Knob{Label: "Chunked prefill (TensorRT-LLM)", Preset: "false"},
		Doc:  schema.Doc{Text: "split prompts that exceed the free tokens of a pass"},
	})
	s.Chunking = cmp.Or(d.Name(schema.Row{
		Key: "context_chunking_policy", Default: chunkingNames()[0], Help: "policy that splits prompts into chunks, by `name`: FIRST_COME_FIRST_SERVED or EQUAL_PROGRESS", Names: chunkingNames(),
		File: schema.File{Place: 340, Help: "policy by which a TensorRT-LLM worker splits prompts into chunks"},
		Doc:  schema.Doc{Text: "policy that splits prompts into chunks: FIRST_COME_FIRST_SERVED or EQUAL_PROGRESS"},
	}), chunkingNames()[0])
	d.Bool(&s.NoOverlap, schema.Row{
		Key: "disable_overlap_scheduler", Help: "plan each pass after the end of the previous pass, not while it runs",
		File: schema.File{Place: 350, Help: "plan each pass after the end of the previous pass, not while it runs"},
		Doc:  schema.Doc{Text: "plan each pass after the end of the previous pass, not while it runs"},
	})
	s.Waiting = cmp.Or(d.Name(schema.Row{
		Key: "waiting_queue_policy", Default: WaitingPolicies()[0], Help: "order of the waiting queue, by `name`: fcfs or priority (most urgent first)", Names: WaitingPolicies(),
		File: schema.File{Place: 322, Help: "order of the waiting queue of a TensorRT-LLM worker"},
		Doc:  schema.Doc{Text: "order of the waiting queue: fcfs, or priority (most urgent first, by the `priority` of the trace)"},
	}), WaitingPolicies()[0])
	s.declareReuse(d)
	s.declareRetention(d)
	s.Balance.declare(d)
	if d.Compat {
		d.RefuseSince(own, "TensorRT-LLM's rules: no compat")
	}
}

func (s *Settings) declareReuse(d *schema.Decl) {
	d.Bool(&s.Partial, schema.Row{
		Key: "enable_partial_reuse", Value: true, Help: "reuse a KV block if only its first tokens match; =false disables it",
		File: schema.File{Place: 352, Help: "reuse a KV block if only its first tokens match"},
		Doc:  schema.Doc{Text: "reuse a KV block if only its first tokens match"},
	})
	d.Bool(&s.Copy, schema.Row{
		Key: "copy_on_partial_reuse", Value: true, Help: "copy a partially matching KV block that is in use; =false disables it",
		File: schema.File{Place: 354, Help: "copy a partially matching KV block that is in use"},
		Doc:  schema.Doc{Text: "copy a partially matching KV block that is in use"},
	})
	d.Size(&s.HostBytes, schema.Row{
		Key: "host_cache_size", Help: "host memory that extends the KV cache, in `bytes`",
		File: schema.File{Place: 360, Help: "host memory that extends the KV cache of a TensorRT-LLM worker, in bytes"},
		Knob: schema.Knob{Label: "Host KV cache (bytes, TensorRT-LLM)", Preset: "0", Steps: "0 4294967296 8589934592 17179869184 34359738368 68719476736 137438953472"},
		Doc:  schema.Doc{Text: "host memory that extends the KV cache of a worker, or of each data-parallel rank. Requires `kv_bytes_per_token`; copies take the bandwidths of KV offload (docs/hardware.md#kv-offload-to-host-memory)"},
	})
	d.Size(&s.WaitIters, schema.Row{
		Key: "batch_wait_timeout_iters", Help: "maximum `number` of passes that prompts wait for more prompt tokens",
		File: schema.File{Place: 362, Help: "maximum number of passes that prompts wait for more prompt tokens on a TensorRT-LLM worker"},
		Doc:  schema.Doc{Text: "maximum number of passes that prompts wait for more prompt tokens"},
	})
	d.NumberIn(&s.WaitRatio, func(f float64) bool { return f >= 0 && f <= 1 }, "0 to 1", schema.Row{
		Key: "batch_wait_max_tokens_ratio", Help: "prompts wait only in passes with fewer tokens than this `share` of max_num_tokens",
		File: schema.File{Place: 364, Help: "prompts wait only in passes with fewer tokens than this share of max-num-tokens"},
		Doc:  schema.Doc{Text: "prompts wait only in passes with fewer tokens than this share of `max_num_tokens`"},
	})
}

// declareRetention declares the retention priorities, and the maximum number of KV events.
func (s *Settings) declareRetention(d *schema.Decl) {
	d.String(&s.Ranges, schema.Row{
		Key: "token_range_retention", Default: "none", Help: "retention priorities of prompt blocks, a comma-separated list of `FIRST-END:PRIORITY:MS`",
		File: schema.File{Place: 366, Help: "retention priorities of prompt blocks"},
		Doc:  schema.Doc{Default: "none", Text: "retention priorities of prompt blocks, by the first token of a block. `0-1024:80:30000,1024-:20` gives the first 1,024 tokens priority 80 for 30 s, and all later tokens priority 20 (docs/rules/trtllm.md#retention-priorities)"},
	})
	if s.Ranges != "" && d.OK() {
		if _, err := ParseRanges(s.Ranges); err != nil {
			d.Fail("token_range_retention", strconv.Quote(s.Ranges), err.Error())
		}
	}
	d.Size(&s.Answer, schema.Row{
		Key: "decode_retention_priority", Value: DefaultPriority, Help: "retention `priority` of answer blocks, 0 to 100",
		File: schema.File{Place: 368, Help: "retention priority of answer blocks"},
		Doc:  schema.Doc{Unit: "priority", Text: "retention priority of answer blocks, 0 to 100"},
	})
	d.Size(&s.AnswerMs, schema.Row{
		Key: "decode_duration_ms", Help: "time in `ms` for which answer blocks keep their retention priority; 0: no limit",
		File: schema.File{Place: 370, Help: "ms for which answer blocks keep their retention priority"},
		Doc:  schema.Doc{Text: "time for which answer blocks keep their retention priority after the end of the request; 0: no limit"},
	})
	d.Size(&s.Events, schema.Row{
		Key: "event_buffer_max_size", Help: "maximum `number` of KV events per pass; the oldest events are dropped and counted; 0: no limit",
		File: schema.File{Place: 372, Help: "maximum number of KV events per pass of a TensorRT-LLM worker"},
		Doc:  schema.Doc{Text: "maximum number of KV events per pass; the oldest events are dropped and counted (`dropped_kv_events`). 0: no limit (the real engine then publishes no events)"},
	})
}

func (b *Balance) declare(d *schema.Decl) {
	d.Bool(&b.On, schema.Row{
		Key: "enable_balance", Help: "ranks of data-parallel attention compute prompts in the same passes",
		File: schema.File{Place: 374, Help: "ranks of data-parallel attention compute prompts in the same passes"},
		Doc:  schema.Doc{Text: "ranks of data-parallel attention compute prompts in the same passes (`attention_dp_config`)"},
	})
	d.Size(&b.TimeoutIters, schema.Row{
		Key: "timeout_iters", Value: 50, Help: "maximum number of `passes` that prompts wait for prompts of other ranks",
		File: schema.File{Place: 376, Help: "maximum number of passes that prompts wait for prompts of other ranks"},
		Doc:  schema.Doc{Text: "maximum number of passes that prompts wait for prompts of other ranks"},
	})
	d.Size(&b.WaitIters, schema.Row{
		Key: "batching_wait_iters", Value: 10, Help: "maximum number of `passes` that the prompts of all ranks wait for more prompts",
		File: schema.File{Place: 378, Help: "maximum number of passes that the prompts of all ranks wait for more prompts"},
		Doc:  schema.Doc{Text: "maximum number of passes that the prompts of all ranks wait for more prompts"},
	})
}
