package timing

// AddDecode adds a request that computes one token and its drafts, together tokens. After the pass the KV cache of
// the request has length tokens.
func (s *Step) AddDecode(tokens, length int) {
	s.Requests++
	s.Tokens += tokens
	s.Readers++
	s.Context += int64(length)
	s.Decodes++
	s.DecodeLength += length
}

// AddChunk adds a request that computes a chunk of tokens after the first before tokens. The chunk is part of its
// prompt of input tokens, or of its answer after a preemption.
func (s *Step) AddChunk(tokens, before, input int) {
	s.Requests++
	s.Tokens += tokens
	s.Chunks++
	s.ChunkTokens += tokens
	s.Pairs += float64(float64(tokens) * (float64(before) + float64(float64(tokens)/2)))
	if before < input {
		s.Prompts++
		s.PromptReached += min(before+tokens, input)
		s.PromptBefore += before
	}
}

// TimesWhole reports whether the model times whole passes instead of separate prefill and decode parts.
func (c *Clock) TimesWhole() bool {
	_, ok := c.Model.(Stepper)
	return ok
}

// StepDecodes returns the time of a pass with only the decodes of s, in ms, or 0 if there are none.
func (c *Clock) StepDecodes(s *Step) (float64, error) {
	if s.Decodes == 0 {
		return 0, nil
	}
	return c.Step(&Step{
		Tokens: s.Decodes, Requests: s.Decodes, Context: s.Context,
		Decodes: s.Decodes, DecodeLength: s.DecodeLength, Active: s.Active, Capacity: s.Capacity,
	})
}
