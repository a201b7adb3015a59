package vllm

import "strings"

// ServerBlock is the tokens of a KV block of a vLLM server where nothing is said.
const ServerBlock = 16

// ServerLimits returns how many tokens a pass and how many requests at once a vLLM server of
// the releases of a profile takes where neither is said: by the name of the GPU and its
// memory in GiB. docs/rules/vllm.md, "Limits of a server", says how both were found.
func ServerLimits(profile, gpu string, memory float64) (batchedTokens, seqs int) {
	k := findProfile(profile)
	switch {
	case k != nil && k.large && memory >= 160:
		return 16384, 1024
	case memory >= 70 && !strings.Contains(strings.ToLower(gpu), "a100"):
		return 8192, 1024
	default:
		return 2048, 256
	}
}
