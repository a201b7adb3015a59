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
		Key: vllm.SeqsKey, Value: 256, Default: "256; with --gpu as a server of vLLM on it", Help: "`requests` a worker runs at once, or unlimited", Only: "vllm", After: "page-size",
		Log:  "vllm:" + vllm.SeqsKey,
		File: schema.File{Place: 160, Default: "1024", Help: "requests a worker runs at once; default: that of vLLM's server on the GPU"},
		Knob: schema.Knob{Label: "max_num_seqs", Preset: "the engine's", Steps: "8 16 32 64 128 256 512 1024"},
		Doc:  schema.Doc{Default: "256, with a GPU by its memory (docs/hardware.md#defaults-with-a-gpu)", Text: "requests running at once; null (flag: unlimited) lifts the limit"},
	})
	d.Limit(&s.MaxBatchedTokens, schema.Row{
		Key: vllm.TokensKey, Value: 8192, Default: "8192; with --gpu as a server of vLLM on it", Help: "`tokens` a vllm worker computes per pass, or unlimited; the KV router reads it for both engines",
		Log:  "vllm:" + vllm.TokensKey,
		File: schema.File{Place: 170, Default: "8192", Help: "tokens a worker computes per pass; default: that of vLLM's server on the GPU"},
		Knob: schema.Knob{Label: "max_num_batched_tokens", Preset: "the engine's", Steps: "512 1024 2048 4096 8192 16384 32768"},
		Doc:  schema.Doc{Default: "8192, with a GPU by its memory (docs/hardware.md#defaults-with-a-gpu)", Text: "vllm: tokens a worker computes per pass; null (flag: unlimited) lifts it. The KV router's queue reads it for both engines"},
	})
}

// DeclareChunks declares whether long prompts are split into chunks.
func DeclareChunks(s *vllm.Settings, d *schema.Decl) {
	d.Bool(&s.ChunkedPrefill, schema.Row{
		Key: "enable_chunked_prefill", Value: true, Help: "cut prompts that exceed the rest of a pass; =false turns it off", Only: "vllm",
		Log:  "vllm:enable_chunked_prefill",
		File: schema.File{Place: 190, Default: "true", Help: "cut prompts that exceed the rest of a pass"},
		Doc:  schema.Doc{Text: "cut prompts that exceed the rest of a pass"},
	})
}

// DeclareOrders declares the order of admission and preemption.
func DeclareOrders(s *vllm.Settings, d *schema.Decl) {
	if d.Name(schema.Row{
		Key: "preemption_mode", Default: "lifo", Help: "the request that is preempted first: lifo or fifo, by `name`", Only: "vllm", After: "enable-chunked-prefill", Names: []string{"lifo", "fifo"},
		Doc: schema.Doc{Text: "the request that is preempted when blocks run out: lifo the last one admitted, fifo the first"},
	}) == "fifo" {
		s.Preemption = vllm.FIFO
	}
	d.Count(&s.ActiveSeqs, schema.Row{
		Key: "max_num_active_seqs",
		Doc: schema.Doc{Default: "none", Text: "requests that run at once, a further limit in addition to `max_num_seqs`", Part: "vLLM"},
	})
	d.Count(&s.PrefillInterval, schema.Row{
		Key: "prefill_schedule_interval",
		Doc: schema.Doc{Default: "1", Text: "interval between passes with prompts while other requests decode, with vLLM's own rules alone; before vllm-0.33 it has no effect, with a warning (docs/rules/vllm.md)", Part: "vLLM"},
	})
	if d.Name(schema.Row{
		Key: "scheduling_policy", Default: "fcfs", Help: "the order of admission, by vLLM's own rules: fcfs or priority, by `name`", Only: "vllm", Names: []string{vllm.FirstCome.String(), vllm.ByPriority.String()},
		Doc: schema.Doc{Text: "the order of admission and preemption: fcfs, or priority, with vLLM's own rules alone (docs/rules/vllm.md)"},
	}) == vllm.ByPriority.String() {
		s.Scheduling = vllm.ByPriority
	}
}

// DeclareWarmup declares the one-time delay of a fresh worker.
func DeclareWarmup(s *vllm.Settings, d *schema.Decl) {
	d.Members(schema.Row{
		Key: "warmup",
		Doc: schema.Doc{Default: "none", Text: "an object: the first pass in which `requests` (1) or more gain a token takes `time` s longer, as in servers that compile kernels at first use; with vLLM's own rules alone (docs/calibration.md#fresh-servers)", Part: "vLLM"},
	}, func(m *schema.Decl) {
		seconds, requests := 0.0, 1
		m.Ratio(&seconds, schema.Row{Key: "time"})
		m.Size(&requests, schema.Row{Key: "requests"})
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
