package engines

import (
	"fmt"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
)

// Lengths are the longest sequences that the engines of a cluster take; the zero value is none.
type Lengths struct {
	prompt bound // of a prompt
	whole  bound // of a prompt and its answer
}

// bound is the most tokens that an engine takes.
type bound struct {
	tokens int    // may be 0
	limit  int    // the engine's argument that it follows from; 0: there is none
	key    string // of that argument
}

// tighten makes b the smaller of b and more.
func (b *bound) tighten(more bound) {
	if more.limit > 0 && (b.limit == 0 || more.tokens < b.tokens) {
		*b = more
	}
}

// Limited reports whether there is a longest sequence.
func (l *Lengths) Limited() bool { return l.prompt.limit > 0 || l.whole.limit > 0 }

// LengthError reports a prompt that leaves no room for an answer in the longest sequence of an engine.
type LengthError struct {
	Input int    // tokens
	Most  int    // tokens of a prompt
	Limit int    // the engine's argument
	Key   string // of that argument
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("input_length %d: with %s a prompt has at most %d tokens", e.Input, e.Bound(), e.Most)
}

// Bound names the argument and its value, with the flag that lifts the bound, if there is one.
func (e *LengthError) Bound() string {
	if e.Key == tokensOfPass {
		return fmt.Sprintf("%s %d without --enable-chunked-context", e.Key, e.Limit)
	}
	return fmt.Sprintf("%s %d", e.Key, e.Limit)
}

// NewLengths returns the longest sequences that every engine of t takes.
func NewLengths(t *Topology) Lengths {
	var l Lengths
	for i := range t.Pools {
		p := &t.Pools[i]
		for _, k := range p.Kinds() {
			prompt, whole := boundsOf(&k.Engine)
			l.prompt.tighten(prompt)
			if p.Role != scheduler.Prefill {
				l.whole.tighten(whole)
			}
		}
	}
	return l
}

// boundsOf returns what an engine takes of a prompt, and of a prompt with its answer.
func boundsOf(a *engineargs.Args) (prompt, whole bound) {
	if a.Engine == engineargs.TRTLLM {
		return trtllmBounds(a)
	}
	if a.MaxLength == 0 {
		return bound{}, bound{}
	}
	limit := bound{limit: a.MaxLength, key: "max_model_len"}
	if a.Engine == engineargs.SGLang {
		limit.key = "context_length"
		prompt, whole = limit, limit
		prompt.tokens, whole.tokens = sglang.LongestPrompt(a.MaxLength, a.SGLang.Drafts.ReservedTokens()), sglang.LongestSequence(a.MaxLength)
		return prompt, whole
	}
	prompt, whole = limit, limit
	prompt.tokens, whole.tokens = a.MaxLength-1, a.MaxLength
	return prompt, whole
}

// Fit returns how many of the answer tokens that a request asks for its engine gives before the sequence
// is as long as it takes; the error is why it refuses the prompt.
func (l *Lengths) Fit(input, output int) (int, *LengthError) {
	if p := l.prompt; p.limit > 0 && input > p.tokens {
		return 0, &LengthError{Input: input, Most: p.tokens, Limit: p.limit, Key: p.key}
	}
	if l.whole.limit > 0 {
		output = min(output, max(1, l.whole.tokens-input))
	}
	return output, nil
}
