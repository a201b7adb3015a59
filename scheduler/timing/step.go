package timing

// Step is the work of one forward pass that computes prompt chunks and answer tokens together. A Stepper uses the
// first group of fields. A Model that times prefill and decode separately uses the last group.
type Step struct {
	Tokens   int     // computed tokens of all requests
	Requests int     // requests with computed tokens
	Context  int64   // tokens of KV cache read by requests that compute one answer token each
	Readers  int     // number of requests that compute one answer token each
	Pairs    float64 // (new token, earlier token) pairs of all other requests
	Chunks   int     // number of requests that are not Readers
	// ChunkTokens is the number of tokens computed by requests that are not Readers.
	ChunkTokens int

	Drafts int // tokens per request that a drafter proposes after the pass

	Prompts       int // requests with prompt tokens to compute
	PromptReached int // tokens of all Prompts after this pass
	PromptBefore  int // tokens of all Prompts before this pass
	Decodes       int // requests that decode
	DecodeLength  int // total length of all Decodes, in tokens
	Active        int // tokens of KV cache in use
	Capacity      int // tokens of KV cache that fit in memory
	// ByTokens makes Active follow DecodeLength, up to Capacity, in the passes of a Run. Without ByTokens, Active is
	// constant.
	ByTokens bool
}

// Mixed reports whether the pass computes more than one answer token per request.
func (s *Step) Mixed() bool { return s.Pairs > 0 }

// Widen raises every quantity of s to at least the value in o.
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

// Step returns the duration of a whole pass in ms. A model that is no Stepper times the prefill part and then the
// decode part. Step returns an error if the time is 2^64 seconds or more.
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

// apart is the cached result of timeApartFromContext for the numbers of tokens and requests of a pass.
type apart struct {
	of               *Parameters
	tokens, requests int
	seconds          float64
}

// timeApart returns timeApartFromContext with a cache of one value, because most passes have as many tokens as the
// previous pass.
func (c *Clock) timeApart(p *Parameters, s *Step) float64 {
	l := &c.latest
	if l.of != p || l.tokens != s.Tokens || l.requests != s.Requests {
		*l = apart{p, s.Tokens, s.Requests, p.timeApartFromContext(s)}
	}
	return l.seconds
}

// addDrafts returns the duration ms of a pass plus the time of its drafts.
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

// Apart returns the durations of the prefill part and the decode part of a pass, in ms. Apart returns an error under
// the same condition as Step.
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
