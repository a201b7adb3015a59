// Package exploretest generates random settings for tests of pages.
package exploretest

import (
	"fmt"
	"math/rand/v2"
)

// Draw returns random settings for a trace. The settings are compatible with each other.
func Draw(rng *rand.Rand, trace string) map[string]string {
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	s := map[string]string{"trace": trace}
	if rng.IntN(3) == 0 {
		s["prefill-workers"], s["decode-workers"] = pick("1", "2"), pick("1", "2", "3")
	} else {
		s["workers"], s["router"] = pick("2", "3", "5", "8"), pick("round_robin", "kv", "random", "least-loaded", "p2c", "session")
	}
	if pool := ""; rng.IntN(3) == 0 {
		if s["prefill-workers"] != "" {
			pool = pick("pool: prefill, ", "pool: decode, ")
		}
		s["faults"] = fmt.Sprintf(pick("[{at: 60s, %sworker: 0, what: dies, back: 30s}]", "[{at: 1m, %sworker: 0, what: slow, factor: 2.5}]",
			"{on_loss: retry, faults: [{at: 90s, %sworker: 0, what: dies}, {at: 2m, what: router}]}"), pool)
	}
	if rng.IntN(4) == 0 {
		s["max-in-flight"] = pick("4", "32")
	} else {
		s["speedup"] = pick("0.5", "1", "4", "16", "2.5")
	}
	if rng.IntN(2) == 0 {
		s["gpu"], s["model"] = pick("h100", "l40s"), "llama-3.1-8b"
	} else {
		s["num-gpu-blocks"] = pick("2048", "16384")
	}
	if rng.IntN(3) == 0 {
		s["engine"], s["num-gpu-blocks"] = "sglang", "262144"
	} else if rng.IntN(2) == 0 {
		s["max-num-seqs"] = pick("16", "64")
	}
	if rng.IntN(2) == 0 {
		s["slo"] = pick("p99:ttft=1s", "ttft=500ms,itl=30ms")
	}
	return s
}
