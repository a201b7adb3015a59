// Package tokenizer counts and numbers the tokens of texts as the model would
// that a tokenizer.json of Hugging Face belongs to.
//
// It knows byte-pair encoding and what the files of today's language models do
// around it. Any other request of a file is refused, never ignored, so
// that the tokens are those of the model or none.
//
// Read tokenizer.go, config.go, then in the order in which a text goes through
// them: added.go, normalize.go, split.go (with pattern.go), bpe.go.
package tokenizer

// Tokenizer makes tokens of texts. It remembers words, so that it is not to be
// used by two goroutines at once.
type Tokenizer struct {
	exact      addedTokens // found in the text unchanged
	normal     addedTokens // found in the normalized text
	normalize  []normalizer
	split      []splitter
	model      *bpe
	head, tail []uint32    // tokens that every text begins and ends with
	pieces     [2][]string // of the text in hand, and room for what they are cut into
}

// Append appends the tokens of text, with the tokens that the model requires before and after it. Templates of chats
// are not applied.
func (t *Tokenizer) Append(dst []uint32, text string) []uint32 {
	dst = t.AppendBare(append(dst, t.head...), text)
	return append(dst, t.tail...)
}

// AppendBare appends the tokens of text alone, as those of an answer.
func (t *Tokenizer) AppendBare(dst []uint32, text string) []uint32 {
	return t.exact.around(dst, text, true, t.section)
}

// section appends the tokens of a part of the text without added tokens; first reports whether the part is its
// beginning.
func (t *Tokenizer) section(dst []uint32, part string, first bool) []uint32 {
	for _, n := range t.normalize {
		part = n(part)
	}
	return t.normal.around(dst, part, first, t.words)
}

// around appends the tokens of text: added tokens unchanged, and for each part between them the tokens that rest
// appends.
func (a *addedTokens) around(dst []uint32, text string, first bool, rest func(dst []uint32, part string, first bool) []uint32) []uint32 {
	a.cut(text, func(part string, id uint32, added bool) {
		if added {
			dst = append(dst, id)
		} else {
			dst = rest(dst, part, first)
		}
		first = false
	})
	return dst
}

// words appends the tokens of normalized text.
func (t *Tokenizer) words(dst []uint32, text string, first bool) []uint32 {
	pieces, next := append(t.pieces[0][:0], text), t.pieces[1]
	for _, s := range t.split {
		next = next[:0]
		for i, p := range pieces {
			next = s(next, p, first && i == 0)
		}
		pieces, next = next, pieces
	}
	for _, p := range pieces {
		if p != "" {
			dst = t.model.append(dst, p)
		}
	}
	t.pieces = [2][]string{pieces, next}
	return dst
}
