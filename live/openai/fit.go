package openai

import (
	"math"
	"slices"
)

// maxChoices bounds the answers to one request.
const maxChoices = 1024

// maxEntries bounds the tokens and log probabilities of all answers to one request: n, times the prompts, times
// max_tokens, times one and the log probabilities of a token.
const maxEntries = 1 << 22

// defaultMaxTokens is the length of completions without a limit.
const defaultMaxTokens = 16

// Fit refuses a request that does not fit in the context of its model, in tokens, and
// parameters without meaning, and limits its answers to what is left of the context. 0 is a
// context without a limit. A request is fitted once.
func (r *Request) Fit(context int) error {
	if context <= 0 {
		context = math.MaxInt32
	}
	if r.maxTokens != nil && *r.maxTokens > int64(context) {
		return refuseValue("max_tokens", "max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output tokens. (parameter=max_tokens, value=%d)", *r.maxTokens, context, *r.maxTokens)
	}
	if err := r.fitPrompts(context); err != nil {
		return err
	}
	if err := r.fitLength(context); err != nil {
		return err
	}
	if err := r.checkSampling(); err != nil || r.Stop.MaxTokens == nil {
		return err // without a limit an answer is short
	}
	if all := int64(r.N) * int64(len(r.Prompts)) * int64(*r.Stop.MaxTokens) * int64(1+max(r.LogProbs, 0)); all > maxEntries {
		return Refuse("max_tokens", "n times max_tokens times logprobs plus 1 must be at most %d for all prompts, got %d.", maxEntries, all)
	}
	return nil
}

// fitPrompts cuts the prompts as requested, and refuses prompts that are too long.
func (r *Request) fitPrompts(context int) error {
	for i := range r.Prompts {
		p := &r.Prompts[i]
		keep := r.truncate
		if keep < 0 {
			keep = context - 1
		}
		if keep > 0 && len(p.Tokens) > keep {
			*p = Prompt{Tokens: p.Tokens[len(p.Tokens)-keep:]}
		}
		if n := len(p.Tokens); n > context {
			atLeast := ""
			if n == context+1 {
				atLeast = "at least "
			}
			return refuseValue("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains %s%d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%d)", context, atLeast, n, n)
		}
	}
	return nil
}

// fitLength limits the answers: to what was asked for, and to what is left of the context.
func (r *Request) fitLength(context int) error {
	longest := 0
	for i := range r.Prompts {
		longest = max(longest, len(r.Prompts[i].Tokens))
	}
	limit := int64(context - longest)
	switch {
	case r.maxTokens != nil && r.Echo && *r.maxTokens == 0:
		r.echoOnly, limit = true, min(limit, 1)
	case r.maxTokens != nil:
		limit = min(limit, *r.maxTokens)
	case r.Kind == Completions:
		limit = min(limit, defaultMaxTokens)
	}
	if limit < 1 {
		return refuseValue("max_tokens", "max_tokens must be at least 1, got %d. (parameter=max_tokens, value=%d)", limit, limit)
	}
	if r.minTokens < 0 {
		return Refuse("min_tokens", "min_tokens must be greater than or equal to 0, got %d.", r.minTokens)
	}
	if r.minTokens > limit {
		return Refuse("min_tokens", "min_tokens must be less than or equal to max_tokens=%d, got %d.", limit, r.minTokens)
	}
	if r.minTokens > 0 {
		least := uint32(r.minTokens)
		r.Stop.MinTokens = &least
	}
	if endless := r.Kind == Chat && r.maxTokens == nil && r.Stop.IgnoreEOS == nil; !endless {
		most := uint32(limit)
		r.Stop.MaxTokens = &most
	}
	return nil
}

// checkSampling refuses parameters without meaning.
func (r *Request) checkSampling() error {
	s := &r.sampling
	if r.N < 1 {
		return Refuse("n", "n must be at least 1, got %d.", r.N)
	}
	if choices := int64(r.N) * int64(len(r.Prompts)); choices > maxChoices {
		return Refuse("n", "n must be at most %d, got %d.", maxChoices/len(r.Prompts), r.N)
	}
	for _, p := range []struct {
		name  string
		value *float64
	}{{"presence_penalty", s.PresencePenalty}, {"frequency_penalty", s.FrequencyPenalty}} {
		if p.value != nil && !(*p.value >= -2 && *p.value <= 2) {
			return Refuse(p.name, "%s must be in [-2, 2], got %s.", p.name, writeFloat(*p.value))
		}
	}
	switch {
	case s.RepetitionPenalty != nil && !(*s.RepetitionPenalty > 0):
		return Refuse("repetition_penalty", "repetition_penalty must be greater than zero, got %s.", writeFloat(*s.RepetitionPenalty))
	case s.Temperature != nil && !(*s.Temperature >= 0):
		return refuseFloat("temperature", "must be non-negative", *s.Temperature)
	case s.Temperature != nil && *s.Temperature > 2:
		return refuseFloat("temperature", "must be in [0, 2]", *s.Temperature)
	case s.TopP != nil && !(*s.TopP > 0 && *s.TopP <= 1):
		return refuseFloat("top_p", "must be in (0, 1]", *s.TopP)
	case s.TopK != nil && *s.TopK < -1:
		return Refuse("top_k", "top_k must be 0 (disable), or at least 1, got %d.", *s.TopK)
	case s.MinP != nil && !(*s.MinP >= 0 && *s.MinP <= 1):
		return Refuse("min_p", "min_p must be in [0, 1], got %s.", writeFloat(*s.MinP))
	case slices.Contains(r.Stop.Stop, ""):
		return Refuse("stop", "stop cannot contain an empty string.")
	case r.LogProbs > maxLogProbs:
		return refuseValue("logprobs", "Requested sample logprobs of %d, which is greater than max allowed: %d (parameter=logprobs, value=%d)", r.LogProbs, maxLogProbs, r.LogProbs)
	}
	return nil
}

func refuseFloat(name, want string, got float64) error {
	return refuseValue(name, "%s %s, got %s. (parameter=%s, value=%s)", name, want, writeFloat(got), name, writeFloat(got))
}
