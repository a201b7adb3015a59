package tokenizer

import (
	"cmp"
	"strings"

	"github.com/replay-llm/replay/internal/stable"
)

// Around returns the number of tokens before and after each text.
func (t *Tokenizer) Around() (head, tail int) { return len(t.head), len(t.tail) }

// Words returns up to most words with the lowest ids. In a text of these words with blanks between them, each word is
// one token. Words returns nil if no words have this property.
func (t *Tokenizer) Words(most int) []string {
	type entry struct {
		token string
		id    uint32
	}
	var all []entry
	for token, id := range t.model.vocab {
		all = append(all, entry{token, id})
	}
	stable.Sort(all, func(a, b entry) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.token, b.token)) })
	var words []string
	known := map[string]bool{}
	var ids []uint32
	for _, e := range all {
		word := strings.TrimPrefix(strings.TrimPrefix(e.token, "Ġ"), "▁")
		if len(words) == most {
			break
		}
		if known[word] || len(word) < 2 || !isPlain(word) {
			continue
		}
		known[word] = true
		if ids = t.AppendBare(ids[:0], word); len(ids) != 1 {
			continue
		}
		if ids = t.AppendBare(ids[:0], word+" "+word); len(ids) == 2 {
			words = append(words, word)
		}
	}
	if len(t.AppendBare(nil, strings.Join(words, " "))) != len(words) {
		return nil
	}
	return words
}

// isPlain reports whether a word has only lower-case ASCII letters and digits.
func isPlain(word string) bool {
	return strings.Trim(word, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}
