package engineargs

// PassLimits are the limits that keep queued requests out of a pass.
type PassLimits struct {
	Known  bool // the limit that applied can be determined: there is one rank, and chunked prefill
	Seats  int  // maximum number of requests; 0: no limit
	Tokens int  // maximum tokens of a pass; 0: no limit
	Loose  int  // tokens by which each prompt may fall short of Tokens, because the engine counts whole pages
	// Decodes reports whether tokens of decoding requests count for Tokens.
	Decodes bool
	// Ahead reports whether a pass is planned while the previous pass runs.
	Ahead bool
}

// PassLimits returns the limits that keep queued requests out of a pass.
func (a *Args) PassLimits() PassLimits {
	switch a.Engine {
	case SGLang:
		s := &a.SGLang
		tokens := s.MaxPrefillTokens
		if s.ChunkTokens > 0 && (tokens == 0 || s.ChunkTokens < tokens) {
			tokens = s.ChunkTokens
		}
		return PassLimits{Known: a.DPSize <= 1, Seats: s.MaxRunning, Tokens: tokens, Loose: a.BlockTokens}
	default:
		return PassLimits{Known: a.DPSize <= 1 && a.ChunkedPrefill, Seats: a.MaxSeqs, Tokens: a.MaxBatchedTokens, Decodes: true, Ahead: a.Engine == VLLM && a.Rules.TwoInFlight}
	}
}
