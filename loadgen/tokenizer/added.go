package tokenizer

import (
	"cmp"
	"strings"
	"unicode"

	"github.com/replay-llm/replay/internal/stable"
)

// addedTokens are tokens that are searched in a text before all other steps.
type addedTokens struct {
	starts [256]bool // first bytes of the tokens
	tokens []added   // sorted by length, longest first
}

// added is an added token.
type added struct {
	content     string
	id          uint32
	left, right bool // includes adjacent blanks on that side
}

func (a *addedTokens) add(t added) {
	a.starts[t.content[0]] = true
	a.tokens = append(a.tokens, t)
}

func (a *addedTokens) sort() {
	stable.Sort(a.tokens, func(x, y added) int { return cmp.Compare(len(y.content), len(x.content)) })
}

// cut calls give for each added token in text and for each part between them, in order.
func (a *addedTokens) cut(text string, give func(part string, id uint32, added bool)) {
	from := 0
	for i := 0; i < len(text); {
		t := a.at(text[i:])
		if t == nil {
			i++
			continue
		}
		start, end := i, i+len(t.content)
		if t.left {
			start = from + len(strings.TrimRightFunc(text[from:i], unicode.IsSpace))
		}
		if t.right {
			end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		if start > from {
			give(text[from:start], 0, false)
		}
		give("", t.id, true)
		from, i = end, end
	}
	if from < len(text) {
		give(text[from:], 0, false)
	}
}

// at returns the longest added token at the start of text.
func (a *addedTokens) at(text string) *added {
	if !a.starts[text[0]] {
		return nil
	}
	for i := range a.tokens {
		if strings.HasPrefix(text, a.tokens[i].content) {
			return &a.tokens[i]
		}
	}
	return nil
}
