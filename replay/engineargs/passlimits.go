package engineargs

// PassLimits are what keeps requests in the queue of an engine out of a pass.
type PassLimits struct {
	Known  bool // the reason that kept them out is known: there is one rank, and prompts are cut where a pass is full
	Seats  int  // requests at once; 0: no limit
	Tokens int  // of a pass; 0: no limit
	Loose  int  // tokens that each prompt may miss Tokens by, since the engine counts whole pages
	// Decodes is true where the tokens of requests that decode count for Tokens.
	Decodes bool
	// Ahead is true where a pass is planned while the one before it runs.
	Ahead bool
}

// PassLimits returns what keeps requests in the queue out of a pass.
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
