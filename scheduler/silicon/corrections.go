package silicon

import (
	"math"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
)

// Corrections are adjustments of the time of a pass in addition to its operators. Corrections are a factor for passes
// with prompts, additions for launches without graphs, and the host time between passes.
type Corrections struct {
	Prompts float64 // factor for passes with prompts
	Prompt  float64 // time in ms added to passes with prompts, for launches outside of graphs
	Base    float64 // time per pass in ms
	Request float64 // time per request in the pass in ms
	Layer   float64 // time per layer in ms, added to passes without graphs
}

// CorrectionsOf returns the corrections for a release of an engine, such as 0.33, or for the newest if release is "".
// The values were fitted to the mean TPOT of some 2,000 measured servers, with all models and GPUs together:
// docs/accuracy.md. The values for vLLM from 0.20 on are from single passes of two models, because none of these
// servers has such a release.
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

// First releases with a change of the host's work. vLLM 0.14 plans a pass while another runs. vLLM 0.20 and
// TensorRT-LLM 1.1 do less work between passes.
const (
	firstOverlapped = 14
	firstLean       = 20
	firstLeanTRT    = 1
)

// minorOf returns the second number of a release, or the maximum int if there is none, which counts as the newest.
func minorOf(release string) int {
	_, minor, _ := strings.Cut(release, ".")
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	if err != nil {
		return math.MaxInt
	}
	return n
}
