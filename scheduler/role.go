package scheduler

import "github.com/replay-llm/replay/sim"

// Role is the function of an engine in a cluster.
type Role uint8

const (
	Aggregated Role = iota // prefill and decode
	Prefill                // prefill only; sends the KV cache to a decode worker
	Decode                 // decode only; prefill takes no time on this worker
)

func (r Role) String() string {
	return [...]string{"aggregated", "prefill", "decode"}[r]
}

// Stage returns the index of the role's pool among the pools that a request passes through: 1 for Decode, 0 for other
// roles.
func (r Role) Stage() int {
	if r == Decode {
		return 1
	}
	return 0
}

// Transfer is the link on which a prefill worker sends a KV cache.
type Transfer struct {
	GBPerSecond   float64  // 10^9 bytes per second; 0: the transfer takes no time
	BytesPerToken int      // KV cache bytes per prompt token; 0: unknown, no time
	Latency       sim.Time // fixed time of each transfer, for any size
}

// Delay returns the transfer time of a prompt's KV cache, computed in the reference's order of operations
// (docs/rules/vllm.md "Handoff delay"). The delay is not rounded to nanoseconds.
func (t Transfer) Delay(promptTokens int) sim.Time {
	if t.GBPerSecond <= 0 || t.BytesPerToken == 0 {
		return t.Latency
	}
	bytes := float64(promptTokens) * float64(t.BytesPerToken)
	seconds := bytes / float64(t.GBPerSecond*1e9)
	return t.Latency + sim.Time(seconds*1000.0)
}
