package scheduler

import "github.com/replay-llm/replay/sim"

// Role is the part an engine plays in a cluster.
type Role uint8

const (
	Aggregated Role = iota // prefill and decode
	Prefill                // prefill only; hands the KV cache over
	Decode                 // decode only; its prefill costs no time
)

func (r Role) String() string {
	return [...]string{"aggregated", "prefill", "decode"}[r]
}

// Stage returns the place of the role's pool among the pools that a request passes
// through: 0 if it enters the cluster, 1 for decode.
func (r Role) Stage() int {
	if r == Decode {
		return 1
	}
	return 0
}

// Transfer is the link over which a prefill worker hands a KV cache over.
type Transfer struct {
	GBPerSecond   float64  // 10^9 bytes per second; 0: the transfer takes no time
	BytesPerToken int      // KV cache bytes per prompt token; 0: unknown, no time
	Latency       sim.Time // of each transfer, for any size
}

// Delay returns the time the KV cache of a prompt takes, in the reference's
// order of operations (docs/rules/vllm.md "Handoff delay"); it is not rounded
// to nanoseconds.
func (t Transfer) Delay(promptTokens int) sim.Time {
	if t.GBPerSecond <= 0 || t.BytesPerToken == 0 {
		return t.Latency
	}
	bytes := float64(promptTokens) * float64(t.BytesPerToken)
	seconds := bytes / float64(t.GBPerSecond*1e9)
	return t.Latency + sim.Time(seconds*1000.0)
}
