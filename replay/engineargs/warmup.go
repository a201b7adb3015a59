package engineargs

import (
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/schema"
	"github.com/replay-llm/replay/sim"
)

// declareWarmup declares for how long a worker that has never served stands still, once.
func (a *Args) declareWarmup(d *schema.Decl) {
	d.Members(schema.Row{
		Key: "warmup",
		Doc: schema.Doc{Default: "none", Text: "an object: a worker that has never served stands still once, for `time` s, in its first pass in which `requests` (1) or more gain a token, as servers do that compile kernels when they need them first; with vLLM's own rules alone ([calibration.md](calibration.md#fresh-servers))", Part: "vLLM"},
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
			a.Warmup = vllm.Warmup{Requests: requests, Time: sim.Time(1000 * seconds)}
		}
	})
}

// NoWarmup returns what an engine would have to be to stand still once, "" where it may.
func (a *Args) NoWarmup() string {
	switch {
	case a.Engine == SGLang:
		return "engine_type vllm with it"
	case a.Rules.Reference():
		return "vLLM's own rules with it: scheduler_profile vllm"
	case a.DPSize > 1:
		return "dp_size 1 with it"
	}
	return ""
}

// checkWarmup refuses a warm-up of engines that have none.
func (a *Args) checkWarmup(d *schema.Decl) {
	if want := a.NoWarmup(); want != "" && a.Warmup.Given() {
		d.FailText("warmup", want)
	}
}
