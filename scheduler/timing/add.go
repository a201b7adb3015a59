package timing

// AddDecode adds a request that computes tokens, which are one and its drafts. Its KV cache then has the tokens of length.
func (s *Step) AddDecode(tokens, length int) {
	s.Requests++
	s.Tokens += tokens
	s.Readers++
	s.Context += int64(length)
	s.Decodes++
	s.DecodeLength += length
}

// AddChunk adds a request that computes tokens of its prompt of input tokens after the first ones, or of its answer once more.
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

// TimesWhole reports whether the model times whole passes, and not their prefill and their decode part apart.
func (c *Clock) TimesWhole() bool {
	_, ok := c.Model.(Stepper)
	return ok
}

// StepDecodes returns what a pass would take with the decodes of s alone, in ms; 0 without any.
func (c *Clock) StepDecodes(s *Step) (float64, error) {
	if s.Decodes == 0 {
		return 0, nil
	}
	return c.Step(&Step{
		Tokens: s.Decodes, Requests: s.Decodes, Context: s.Context,
		Decodes: s.Decodes, DecodeLength: s.DecodeLength, Active: s.Active, Capacity: s.Capacity,
	})
}
