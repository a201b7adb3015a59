package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Pass is what a pass of an engine did, and how full the engine is after it.
type Pass struct {
	Running, Waiting int       // requests
	Held, Blocks     int       // KV blocks held by requests, and all
	PromptTokens     int       // computed, of requests that got their first token
	Generated        int       // tokens
	Preempted        int       // requests
	Firsts           []float64 // seconds from the arrivals of requests to their first tokens
	Gaps             []float64 // seconds between the tokens of requests
	// LoRA adapters of running and waiting requests, in order of their names.
	RunningAdapters, WaitingAdapters []string
}

// observeTimes adds the times to the first tokens and between tokens to histograms.
func (p *Pass) observeTimes(first, gap prometheus.Observer) {
	for _, t := range p.Firsts {
		first.Observe(t)
	}
	for _, t := range p.Gaps {
		gap.Observe(t)
	}
}

// Request is how a request fared. Times are in seconds.
type Request struct {
	Prompt, Cached, Generated, Limit int     // tokens
	Queued, Prefill, Decode, Total   float64 // until it was admitted, its first, its last token; in all
	Preemptions                      int
}
