package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Pass describes one pass of an engine and the load after it.
type Pass struct {
	Running, Waiting int       // requests after the pass
	Held, Blocks     int       // KV blocks in use, and all KV blocks
	PromptTokens     int       // prompt tokens of requests that got their first token
	Generated        int       // number of generated tokens
	Preempted        int       // number of preempted requests
	Firsts           []float64 // seconds from the arrival of a request to its first token
	Gaps             []float64 // seconds between the tokens of requests
	// LoRA adapters of the running and the waiting requests, sorted by name.
	RunningAdapters, WaitingAdapters []string
}

// observeTimes adds the times to first token and between tokens to histograms.
func (p *Pass) observeTimes(first, gap prometheus.Observer) {
	for _, t := range p.Firsts {
		first.Observe(t)
	}
	for _, t := range p.Gaps {
		gap.Observe(t)
	}
}

// Request describes a finished request. Times are in seconds.
type Request struct {
	Prompt, Cached, Generated, Limit int     // numbers of tokens
	Queued, Prefill, Decode, Total   float64 // time in the queue, from admission to first token, from first to last token, and in all
	Preemptions                      int
}
