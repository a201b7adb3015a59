package engines

import (
	"strings"

	"github.com/replay-llm/replay/replay/engineargs"
)

// LimitsOf returns the limits of an engine by flag: its maximum sequence length, its maximum number of requests, and
// its tokens per pass. LimitsOf omits limits that are not set.
func LimitsOf(a *engineargs.Args) map[string]int {
	all := map[string]int{"max-model-len": a.MaxLength}
	switch a.Engine {
	case engineargs.VLLM:
		all["max-num-seqs"], all["max-num-batched-tokens"] = a.MaxSeqs, a.MaxBatchedTokens
	case engineargs.SGLang:
		all["max-running-requests"], all["chunked-prefill-size"] = a.SGLang.MaxRunning, a.SGLang.ChunkTokens
	default:
		all["max-batch-size"], all["max-num-tokens"] = a.TRTLLM.MaxBatch, a.TRTLLM.MaxTokens
	}
	for flag, n := range all {
		if n == 0 {
			delete(all, flag)
		}
	}
	return all
}

// NumberOf returns the release of an engine with three numbers, for example 0.33.0.
func NumberOf(a *engineargs.Args) string {
	if a.Engine == engineargs.VLLM {
		return VersionOf(a.Profile)
	}
	_, release, _ := strings.Cut(ReleaseOf(a), "-")
	if strings.Count(release, ".") == 1 {
		release += ".0"
	}
	return release
}
