// Package tokenizer computes the tokens of texts by a tokenizer.json of Hugging Face.
//
// Package tokenizer supports byte-pair encoding and the steps that are usual in files of current language models. All
// other settings of a file are errors, so that tokens are never wrong.
//
// Read tokenizer.go and config.go. Then read the processing steps in their order: added.go, normalize.go, split.go
// (with pattern.go), bpe.go.
package tokenizer

// Tokenizer computes the tokens of texts. Tokenizer caches words, so it is not safe for concurrent use.
type Tokenizer struct {
	exact      addedTokens // searched in the text
	normal     addedTokens // searched in the normalized text
	normalize  []normalizer
	split      []splitter
	model      *bpe
	head, tail []uint32    // tokens before and after each text
	pieces     [2][]string // pieces of the current text, and a buffer for the next step
}

// Append appends the tokens of text, with the tokens that the model requires before and after it. Append does not
// apply chat templates.
func (t *Tokenizer) Append(dst []uint32, text string) []uint32 {
	dst = t.AppendBare(append(dst, t.head...), text)
	return append(dst, t.tail...)
}

// AppendBare appends only the tokens of text, for example of an answer.
func (t *Tokenizer) AppendBare(dst []uint32, text string) []uint32 {
	return t.exact.around(dst, text, true, t.section)
}

// section appends the tokens of a part without exact added tokens. first is true for the part at the start of the
// text.
func (t *Tokenizer) section(dst []uint32, part string, first bool) []uint32 {
	for _, n := range t.normalize {
		part = n(part)
	}
	return t.normal.around(dst, part, first, t.words)
}

// around appends the tokens of text. around calls rest for each part between added tokens.
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

// words appends the tokens of a normalized text.
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
