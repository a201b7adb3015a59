package engines

import (
	"fmt"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
)

// Lengths are the maximum sequence lengths of the engines of a cluster; the zero value means no limit.
type Lengths struct {
	prompt bound // of a prompt
	whole  bound // of a prompt and its answer
}

// bound is a maximum number of tokens.
type bound struct {
	tokens int    // may be 0
	limit  int    // value of the engine's argument for the limit; 0: none
	key    string // name of that argument
}

// tighten sets b to the smaller of b and more.
func (b *bound) tighten(more bound) {
	if more.limit > 0 && (b.limit == 0 || more.tokens < b.tokens) {
		*b = more
	}
}

// Limited reports whether there is a maximum sequence length.
func (l *Lengths) Limited() bool { return l.prompt.limit > 0 || l.whole.limit > 0 }

// LengthError reports a prompt that leaves no room for an answer within the maximum sequence length.
type LengthError struct {
	Input int    // tokens of the prompt
	Most  int    // maximum tokens of a prompt
	Limit int    // value of the engine's argument
	Key   string // name of that argument
}

func (e *LengthError) Error() string {
	return fmt.Sprintf("input_length %d: with %s a prompt has at most %d tokens", e.Input, e.Bound(), e.Most)
}

// Bound returns the argument and its value, with the flag that disables the limit if there is one.
func (e *LengthError) Bound() string {
	if e.Key == tokensOfPass {
		return fmt.Sprintf("%s %d without --enable-chunked-context", e.Key, e.Limit)
	}
	return fmt.Sprintf("%s %d", e.Key, e.Limit)
}

// NewLengths returns the maximum sequence lengths that all engines of t support.
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

// boundsOf returns the limits of an engine for a prompt, and for a prompt with its answer.
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

// Fit returns the number of answer tokens that fit within the maximum sequence length, at most output. If the prompt
// does not fit, Fit returns an error.
func (l *Lengths) Fit(input, output int) (int, *LengthError) {
	if p := l.prompt; p.limit > 0 && input > p.tokens {
		return 0, &LengthError{Input: input, Most: p.tokens, Limit: p.limit, Key: p.key}
	}
	if l.whole.limit > 0 {
		output = min(output, max(1, l.whole.tokens-input))
	}
	return output, nil
}
