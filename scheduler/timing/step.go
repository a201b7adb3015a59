package timing

// Step is the work of one forward pass that computes prompt chunks and answer tokens together. The first group of
// fields is for a Stepper, the second for a Model that times prefill and decode apart.
type Step struct {
	Tokens   int     // computed, over all requests
	Requests int     // that compute any
	Context  int64   // tokens of KV cache that requests read which compute one answer token each
	Readers  int     // these requests
	Pairs    float64 // (new token, earlier token) pairs of all other requests
	Chunks   int     // these requests
	// ChunkTokens are the tokens that they compute.
	ChunkTokens int

	Drafts int // tokens that a drafter proposes after the pass for each request

	Prompts       int // requests with prompt tokens to compute
	PromptReached int // tokens, over Prompts: reached by this pass
	PromptBefore  int // tokens, over Prompts: there before this pass
	Decodes       int // requests that decode
	DecodeLength  int // tokens, over Decodes: their lengths
	Active        int // tokens of KV cache in use
	Capacity      int // tokens of KV cache there is room for
	// ByTokens makes Active the tokens of DecodeLength, at most Capacity, in the passes of a
	// Run; otherwise it stays.
	ByTokens bool
}

// Mixed reports whether the pass computes anything besides one answer token per request.
func (s *Step) Mixed() bool { return s.Pairs > 0 }

// Widen raises every number of s that takes time to at least that of o.
func (s *Step) Widen(o *Step) {
	s.Tokens, s.Requests = max(s.Tokens, o.Tokens), max(s.Requests, o.Requests)
	s.Drafts = max(s.Drafts, o.Drafts)
	s.Context, s.Pairs = max(s.Context, o.Context), max(s.Pairs, o.Pairs)
	s.Readers, s.Chunks, s.ChunkTokens = max(s.Readers, o.Readers), max(s.Chunks, o.Chunks), max(s.ChunkTokens, o.ChunkTokens)
	s.Prompts, s.Decodes = max(s.Prompts, o.Prompts), max(s.Decodes, o.Decodes)
	s.PromptReached, s.PromptBefore = max(s.PromptReached, o.PromptReached), max(s.PromptBefore, o.PromptBefore)
	s.DecodeLength, s.Active, s.Capacity = max(s.DecodeLength, o.DecodeLength), max(s.Active, o.Active), max(s.Capacity, o.Capacity)
}

// Stepper predicts how long a whole forward pass takes, in ms.
type Stepper interface {
	Step(s *Step) float64
}

// Step returns the duration of a whole pass in ms. Models that are no Stepper time
// its prefill and its decode part, one after the other. It fails when the time
// does not fit in 2^64 seconds.
func (c *Clock) Step(s *Step) (float64, error) {
	var ms float64
	switch m := c.Model.(type) {
	case *Parameters:
		ms = m.addContext(c.timeApart(m, s), s)
	case Stepper:
		ms = m.Step(s)
	default:
		prefill, decode, err := c.Apart(s)
		return c.addDrafts(prefill+decode, s), err
	}
	factor := c.Speedup
	if !s.Mixed() {
		factor = float64(c.Speedup * c.DecodeSpeedup)
	}
	ms, err := scaleTime(ms, factor)
	return c.addDrafts(ms, s), err
}

// apart is the terms of Parameters for the numbers of tokens and requests of a pass.
type apart struct {
	of               *Parameters
	tokens, requests int
	seconds          float64
}

// timeApart is timeApartFromContext, which is remembered: most passes have as many tokens
// as the one before.
func (c *Clock) timeApart(p *Parameters, s *Step) float64 {
	l := &c.latest
	if l.of != p || l.tokens != s.Tokens || l.requests != s.Requests {
		*l = apart{p, s.Tokens, s.Requests, p.timeApartFromContext(s)}
	}
	return l.seconds
}

// addDrafts returns the duration of a pass with the drafts that follow it.
func (c *Clock) addDrafts(ms float64, s *Step) float64 {
	if s.Drafts == 0 {
		return ms
	}
	draft := c.DraftMs
	if c.Speedup > 0 {
		draft /= c.Speedup
	}
	return ms + float64(float64(s.Drafts)*(draft+float64(c.DraftShare*ms)))
}

// Apart returns the duration of a pass in ms that computes prompts first and then
// decodes. It fails like Step.
func (c *Clock) Apart(s *Step) (prefill, decode float64, err error) {
	if n := s.Prompts; n > 0 {
		if prefill, err = c.Prefill(n, s.PromptReached/n, s.PromptBefore/n); err != nil {
			return 0, 0, err
		}
	}
	if n := s.Decodes; n > 0 {
		if decode, err = c.Decode(n, s.Active, s.DecodeLength/n, s.Capacity); err != nil {
			return 0, 0, err
		}
	}
	return prefill, decode, nil
}
