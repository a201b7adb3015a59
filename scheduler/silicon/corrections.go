package silicon

import (
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
)

// Corrections are the time of a pass in addition to its operators: a factor of passes with prompts, for launches without graphs,
// and the time of the host between passes.
type Corrections struct {
	Prompts float64 // factor of a pass that computes prompts
	Prompt  float64 // ms more of such a pass, for launching what no graph holds
	Base    float64 // ms a pass
	Request float64 // ms a request in the pass
	Layer   float64 // ms a layer more of a pass that is launched without graphs
}

// CorrectionsOf returns the corrections of a release of an engine, as 0.33; "": of the newest. They were fitted to the mean
// TPOT of some 2,000 measured servers, all models and GPUs together: docs/accuracy.md. Those of vLLM from 0.20 on are from
// single passes of two models, since none of these servers has such a release.
func CorrectionsOf(e optables.Engine, release string) Corrections {
	const launch = hardware.LaunchTime * 1e3
	switch n := minorOf(release); {
	case e == optables.SGLang:
		return Corrections{1, 32, 1.5, 0.02, launch}
	case e == optables.TRTLLM && n < firstLeanTRT:
		return Corrections{1.25, 0, 1.15, 0.01, launch}
	case e == optables.TRTLLM:
		return Corrections{1.03, 8, 0.1, 0, launch}
	case n < firstOverlapped:
		return Corrections{1.3, 0, 2.4, 0.04, launch}
	case n < firstLean:
		return Corrections{1.1, 5, 0.6, 0, launch}
	}
	return Corrections{1.1, 5, 0.2, 0, launch}
}

// Releases 0.N of vLLM from which on the host plans a pass while one runs, and from which on little else is left for it to do
// between passes, and 1.N of TensorRT-LLM from which on it does less.
const (
	firstOverlapped = 14
	firstLean       = 20
	firstLeanTRT    = 1
)

// minorOf returns the second number of a release; of none, that of the newest.
func minorOf(release string) int {
	_, minor, _ := strings.Cut(release, ".")
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	if err != nil {
		return math.MaxInt
	}
	return n
}
