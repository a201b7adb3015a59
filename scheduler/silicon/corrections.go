package silicon

import (
	"strconv"
	"strings"

	"github.com/replay-llm/replay/scheduler/optables"
)

// Corrections are what a pass takes beyond its operators: a factor of passes with prompts, whose launches are not graphs,
// and the time of the host between passes.
type Corrections struct {
	Prompts float64 // factor of a pass that computes prompts
	Base    float64 // ms a pass
	Request float64 // ms a request in the pass
	Layer   float64 // ms a layer that launching a pass without graphs takes at least
}

// CorrectionsOf returns the corrections of a release of an engine, as 0.33; "": of the newest. They were fitted to measured
// servers: docs/accuracy.md.
func CorrectionsOf(e optables.Engine, release string) Corrections {
	c := Corrections{Prompts: 1.08, Base: 0.75, Request: 0.012, Layer: 0.05}
	if e == optables.VLLM && isOverlapped(release) {
		c.Base, c.Request = 0.15, 0.0025
	}
	return c
}

// firstOverlapped is the release of vLLM from which on the host plans a pass while one runs.
const firstOverlapped = 14

// isOverlapped reports whether a release of vLLM plans a pass while one runs.
func isOverlapped(release string) bool {
	_, minor, _ := strings.Cut(release, ".")
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	return err != nil || n >= firstOverlapped
}
