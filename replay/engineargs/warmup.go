package engineargs

import (
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// readWarmup reads for how long a worker that has never served stands still, once.
func (r *reader) readWarmup(a *Args) {
	m := r.openObject("warmup")
	if m == nil {
		return
	}
	seconds, requests := 0.0, 1
	m.ratio("time", &seconds)
	m.size("requests", &requests)
	for _, key := range m.values.unknownKeys(m.asked) {
		m.fail(key, excerpt.CutLine(m.values[key]), "one of "+strings.Join(m.asked, ", "))
	}
	if requests < 1 {
		m.fail("requests", strconv.Itoa(requests), "at least 1")
	}
	if seconds == 0 {
		value := "missing"
		if text := m.values["time"]; text != nil {
			value = excerpt.CutLine(text)
		}
		m.fail("time", value, "s above 0")
	}
	if r.err = m.err; r.err == nil {
		a.Warmup = vllm.Warmup{Requests: requests, Time: sim.Time(1000 * seconds)}
	}
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
func (r *reader) checkWarmup(a *Args) {
	if want := a.NoWarmup(); want != "" && a.Warmup.Given() {
		r.fail("warmup", excerpt.CutLine(r.values["warmup"]), want)
	}
}
