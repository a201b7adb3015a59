package openai

import (
	"math"
	"slices"
)

// maxChoices is the maximum number of choices of one request.
const maxChoices = 1024

// maxEntries is the maximum number of tokens and log probabilities of all choices of a request. The number is n ×
// prompts × max_tokens × (1 + log probabilities per token).
const maxEntries = 1 << 22

// defaultMaxTokens is the default of max_tokens for completions.
const defaultMaxTokens = 16

// contextPhrase begins the error of a prompt that is too long. Clients match this phrase: LiteLLM then raises
// ContextWindowExceededError and selects a model with a longer context.
const contextPhrase = "This model's maximum context length is"

// Fit rejects a request that does not fit in the context of the model, and parameters that are out of range. Fit
// limits the answers to the remaining context. context is in tokens; 0: no limit. Fit must be called once per
// request.
func (r *Request) Fit(context int) error {
	if context <= 0 {
		context = math.MaxInt32
	}
	if r.maxTokens != nil && *r.maxTokens > int64(context) {
		return Refuse("max_tokens", "max_tokens is %d, must be at most the context length, %d", *r.maxTokens, context)
	}
	if err := r.fitPrompts(context); err != nil {
		return err
	}
	if err := r.fitLength(context); err != nil {
		return err
	}
	if err := r.checkSampling(); err != nil || r.Stop.MaxTokens == nil {
		return err // the default limit is too small for this check
	}
	if all := int64(r.N) * int64(len(r.Prompts)) * int64(*r.Stop.MaxTokens) * int64(1+max(r.LogProbs, 0)); all > maxEntries {
		return Refuse("max_tokens", "n times max_tokens times logprobs plus 1 must be at most %d for all prompts, got %d", maxEntries, all)
	}
	return nil
}

// fitPrompts truncates the prompts if requested, and rejects prompts that are too long.
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
			return Refuse("input_tokens", contextPhrase+" %d tokens: the prompt has %d", context, n)
		}
	}
	return nil
}

// fitLength limits the answers to max_tokens and to the remaining context.
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
	switch {
	case limit >= 1:
	case r.maxTokens == nil || *r.maxTokens >= 1:
		return Refuse("max_tokens", "the prompt has %d tokens of a context of %d, must leave at least 1 for the answer", longest, context)
	default:
		return Refuse("max_tokens", "max_tokens is %d, must be at least 1", limit)
	}
	if r.minTokens < 0 {
		return Refuse("min_tokens", "min_tokens is %d, must be at least 0", r.minTokens)
	}
	if r.minTokens > limit {
		return Refuse("min_tokens", "min_tokens is %d, must be at most max_tokens, %d", r.minTokens, limit)
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

// checkSampling rejects sampling parameters that are out of range.
func (r *Request) checkSampling() error {
	s := &r.sampling
	if r.N < 1 {
		return Refuse("n", "n is %d, must be at least 1", r.N)
	}
	if choices := int64(r.N) * int64(len(r.Prompts)); choices > maxChoices {
		return Refuse("n", "n is %d, must be at most %d", r.N, maxChoices/len(r.Prompts))
	}
	for _, p := range []struct {
		name  string
		value *float64
	}{{"presence_penalty", s.PresencePenalty}, {"frequency_penalty", s.FrequencyPenalty}} {
		if p.value != nil && !(*p.value >= -2 && *p.value <= 2) {
			return refuseFloat(p.name, "from -2 to 2", *p.value)
		}
	}
	switch {
	case s.RepetitionPenalty != nil && !(*s.RepetitionPenalty > 0):
		return refuseFloat("repetition_penalty", "more than 0", *s.RepetitionPenalty)
	case s.Temperature != nil && !(*s.Temperature >= 0):
		return refuseFloat("temperature", "at least 0", *s.Temperature)
	case s.Temperature != nil && *s.Temperature > 2:
		return refuseFloat("temperature", "at most 2", *s.Temperature)
	case s.TopP != nil && !(*s.TopP > 0 && *s.TopP <= 1):
		return refuseFloat("top_p", "more than 0 and at most 1", *s.TopP)
	case s.TopK != nil && *s.TopK < -1:
		return Refuse("top_k", "top_k is %d, must be at least 1, or 0 or -1 for all tokens", *s.TopK)
	case s.MinP != nil && !(*s.MinP >= 0 && *s.MinP <= 1):
		return refuseFloat("min_p", "from 0 to 1", *s.MinP)
	case slices.Contains(r.Stop.Stop, ""):
		return Refuse("stop", "stop has an empty string, must have at least one character")
	case r.LogProbs > maxLogProbs:
		return Refuse("logprobs", "logprobs is %d, must be at most %d", r.LogProbs, maxLogProbs)
	}
	return nil
}

func refuseFloat(name, rule string, got float64) error {
	return Refuse(name, "%s is %v, must be %s", name, got, rule)
}
