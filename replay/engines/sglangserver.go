package engines

import "math"

// chunkOfSGLang returns the default of chunked_prefill_size of an SGLang server, given the memory of its GPU in GiB.
func chunkOfSGLang(memory float64) int {
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

// seatsOfSGLang returns the default of max_running_requests of an SGLang server, given the tokens of its pool and the
// maximum sequence length of its model.
func seatsOfSGLang(tokens, longest int) int {
	seats := int(float64(tokens) / float64(longest) * 512)
	return max(1, min(max(min(seats, 4096), 2048), tokens/2))
}

// sglangServer is the settings that determine the memory that an SGLang server reserves on a GPU.
type sglangServer struct {
	MemoryGiB float64
	TP, PP    int
	Latent    bool // the model has multi-head latent attention
	Chunk     int  // chunked_prefill_size
}

// share returns the default of mem_fraction_static: the share of memory without activations and graphs. The size of
// activations and graphs is an estimate in MiB. The estimate depends on the chunk, and on the decode batches and
// prompt sizes for which graphs are captured.
func (s *sglangServer) share() float64 {
	reserved := 512 + 1.5*float64(max(s.Chunk, 2048)) + float64(s.TP*s.PP)/8*1024 + 2*float64(s.graphBatch())
	switch {
	case s.PP > 1: // no graphs of prompts
	case s.Latent:
		reserved += 1536
	default:
		reserved += 8 * float64(countGraphSizes(s.Chunk))
	}
	total := s.MemoryGiB * 1024
	if s.MemoryGiB > 60 {
		reserved = max(reserved, 10240)
	}
	return math.Round((total-reserved)/total*1000) / 1000
}

// graphBatch returns the largest batch of tokens for which a graph is captured.
func (s *sglangServer) graphBatch() int {
	wide := s.TP >= 4
	switch {
	case s.MemoryGiB < 20:
		return 8
	case s.MemoryGiB < 60 && wide:
		return 160
	case s.MemoryGiB < 35:
		return 48
	case s.MemoryGiB < 60:
		return 32
	case s.MemoryGiB < 160 && !wide:
		return 256
	}
	return 512
}

// countGraphSizes returns the number of prompt sizes, up to most tokens, for which graphs are captured.
func countGraphSizes(most int) (n int) {
	at := 0
	for _, step := range []struct{ size, to int }{{4, 32}, {16, 256}, {32, 512}, {64, 1024}, {256, 4096}, {512, math.MaxInt}} {
		for at+step.size <= min(step.to, most) {
			at += step.size
			n++
		}
	}
	return n
}
