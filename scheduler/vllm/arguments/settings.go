package arguments

import (
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/schema"
	"github.com/replay-llm/replay/sim"
)

// DeclareLimits declares the limits of a pass.
func DeclareLimits(s *vllm.Settings, d *schema.Decl) {
	d.Limit(&s.MaxSeqs, schema.Row{
		Key: vllm.SeqsKey, Value: 256, Default: "256; with --gpu vLLM's default for it", Help: "maximum number of `requests` that run on a worker at once, or unlimited", Only: "vllm", After: "page-size",
		Log:  "vllm:" + vllm.SeqsKey,
		File: schema.File{Place: 160, Default: "1024", Help: "maximum number of requests that run on a worker at once; default: that of vLLM's server on the GPU"},
		Knob: schema.Knob{Label: "max_num_seqs", Preset: "the engine's", Steps: "8 16 32 64 128 256 512 1024"},
		Doc:  schema.Doc{Default: "256, with a GPU by its memory (docs/hardware.md#defaults-with-a-gpu)", Text: "maximum number of requests that run on a worker at once; null (flag: unlimited): no limit"},
	})
	d.Limit(&s.MaxBatchedTokens, schema.Row{
		Key: vllm.TokensKey, Value: 8192, Default: "8192; with --gpu vLLM's default for it", Help: "maximum number of `tokens` that a vllm worker computes per pass, or unlimited; the KV router uses it for all engines",
		Log:  "vllm:" + vllm.TokensKey,
		File: schema.File{Place: 170, Default: "8192", Help: "maximum number of tokens that a worker computes per pass; default: that of vLLM's server on the GPU"},
		Knob: schema.Knob{Label: "max_num_batched_tokens", Preset: "the engine's", Steps: "512 1024 2048 4096 8192 16384 32768"},
		Doc:  schema.Doc{Default: "8192, with a GPU by its memory (docs/hardware.md#defaults-with-a-gpu)", Text: "maximum number of tokens that a vllm worker computes per pass; null (flag: unlimited): no limit. The queue of the KV router uses it for all engines"},
	})
}

// DeclareChunks declares whether long prompts are split into chunks.
func DeclareChunks(s *vllm.Settings, d *schema.Decl) {
	d.Bool(&s.ChunkedPrefill, schema.Row{
		Key: "enable_chunked_prefill", Value: true, Help: "split prompts that exceed the free tokens of a pass; =false disables it", Only: "vllm",
		Log:  "vllm:enable_chunked_prefill",
		File: schema.File{Place: 190, Default: "true", Help: "split prompts that exceed the free tokens of a pass"},
		Doc:  schema.Doc{Text: "split prompts that exceed the free tokens of a pass"},
	})
}

// DeclareOrders declares the order of admission and preemption.
func DeclareOrders(s *vllm.Settings, d *schema.Decl) {
	if d.Name(schema.Row{
		Key: "preemption_mode", Default: "lifo", Help: "request that is preempted first, by `name`: lifo (the last admitted) or fifo (the first admitted)", Only: "vllm", After: "enable-chunked-prefill", Names: []string{"lifo", "fifo"},
		Doc: schema.Doc{Text: "request that is preempted when no block is free: lifo (the last admitted) or fifo (the first admitted)"},
	}) == "fifo" {
		s.Preemption = vllm.FIFO
	}
	d.Count(&s.ActiveSeqs, schema.Row{
		Key: "max_num_active_seqs",
		Doc: schema.Doc{Default: "none", Text: "second limit of requests that run on a worker at once, in addition to `max_num_seqs`", Part: "vLLM"},
	})
	d.Count(&s.PrefillInterval, schema.Row{
		Key: "prefill_schedule_interval",
		Doc: schema.Doc{Default: "1", Text: "minimum number of passes from one pass with prompts to the next while requests decode. Requires vLLM's own rules; ignored with a warning before vllm-0.33 (docs/rules/vllm.md)", Part: "vLLM"},
	})
	if d.Name(schema.Row{
		Key: "scheduling_policy", Default: "fcfs", Help: "order of admission and preemption, by `name`: fcfs, or priority (requires vLLM's own rules)", Only: "vllm", Names: []string{vllm.FirstCome.String(), vllm.ByPriority.String()},
		Doc: schema.Doc{Text: "order of admission and preemption: fcfs, or priority, which requires vLLM's own rules (docs/rules/vllm.md)"},
	}) == vllm.ByPriority.String() {
		s.Scheduling = vllm.ByPriority
	}
}

// DeclareWarmup declares the one-time delay of a fresh worker.
func DeclareWarmup(s *vllm.Settings, d *schema.Decl) {
	d.Members(schema.Row{
		Key: "warmup",
		Doc: schema.Doc{Default: "none", Text: "warm-up of fresh workers, as in servers that compile kernels at first use; an object with `time` and `requests`. Requires vLLM's own rules (docs/calibration.md#fresh-servers)", Part: "vLLM"},
	}, func(m *schema.Decl) {
		seconds, requests := 0.0, 1
		m.Ratio(&seconds, schema.Row{
			Key: "time",
			Doc: schema.Doc{Unit: "s", Default: "required", Text: "time that the warm-up adds to the first pass with enough requests", Part: "vLLM"},
		})
		m.Size(&requests, schema.Row{
			Key: "requests", Value: 1,
			Doc: schema.Doc{Unit: "requests", Text: "number of requests that must gain a token in a pass, so that the pass is the warm-up", Part: "vLLM"},
		})
		m.RefuseUnknown()
		if requests < 1 {
			m.Fail("requests", strconv.Itoa(requests), "at least 1")
		}
		if seconds == 0 {
			value := "missing"
			if m.Has("time") {
				value = excerpt.CutLine(m.Raw("time"))
			}
			m.Fail("time", value, "s above 0")
		}
		if m.OK() {
			s.Warmup = vllm.Warmup{Requests: requests, Time: sim.Time(1000 * seconds)}
		}
	})
}
