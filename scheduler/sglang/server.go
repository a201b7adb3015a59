package sglang

// ServerChunk returns chunked_prefill_size of an SGLang server where it is not said, by the
// memory of its GPU in GiB.
func ServerChunk(memory float64) int {
	switch {
	case memory < 20:
		return 2048
	case memory < 60:
		return 4096
	case memory < 160:
		return 8192
	default:
		return 16384
	}
}

// ServerSeats returns max_running_requests of an SGLang server where it is not said: by the
// tokens of its pool and the longest sequence of its model.
func ServerSeats(tokens, longest int) int {
	seats := int(float64(tokens) / float64(longest) * 512)
	return max(1, min(max(min(seats, 4096), 2048), tokens/2))
}
