package openai_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/openai"
)

// Tokenize returns the expected number of tokens, and Detokenize returns the text again.
func TestTokenize(t *testing.T) {
	for text, want := range map[string]int{
		"":                                 0,
		"the":                              1,
		"the people of the world":          5,
		"The people":                       2, // " people" is a word, and "The" is three bytes
		" the":                             1, // " the" is four bytes
		"hello":                            1,
		"\n\n":                             2,
		"the\nthe the":                     4,
		"extraordinarily":                  3,
		"12345678":                         2,
		"é":                                1,
		"日本語":                              3,
		"  x":                              2,
		"It is a truth universally known.": 8,
		"🙂🙂":                               3,
	} {
		tokens := openai.Tokenize(text)
		if len(tokens) != want {
			t.Errorf("%q: %d tokens, want %d", text, len(tokens), want)
		}
		if got := openai.Detokenize(tokens); got != text {
			t.Errorf("%q is told as %q", text, got)
		}
	}
}

// Detokenize inverts Tokenize for random texts, at once and token by token.
func TestTextsComeBack(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	parts := []string{" ", "\n", "the", "people", " the", "abcdefghijk", "7", "123", "é", "🙂", "日", "\t", ".", "?!", "\"", "<|user|>", "\x00", "A"}
	for range 2000 {
		var text strings.Builder
		for range draw.IntN(12) {
			text.WriteString(parts[draw.IntN(len(parts))])
		}
		tokens := openai.Tokenize(text.String())
		var s openai.Speaker
		var said []byte
		for _, token := range tokens {
			said = s.AppendToken(said, token)
		}
		if said = s.AppendRest(said); string(said) != text.String() {
			t.Fatalf("%q is told as %q", text.String(), said)
		}
	}
}

// Each drawn token is a different word of three to eight lower-case letters. Every tokenizer encodes such a word as
// one token.
func TestWords(t *testing.T) {
	seen := make(map[string]uint32)
	var all []uint32
	for token := uint32(1000); token < 2000; token++ {
		word := openai.Detokenize([]uint32{token})
		if len(word) < 3 || len(word) > 8 || strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("token %d is %q, want three to eight small letters", token, word)
		}
		if other, twice := seen[word]; twice {
			t.Errorf("tokens %d and %d are both %q", other, token, word)
		}
		seen[word] = token
		all = append(all, token)
	}
	text := openai.Detokenize(all)
	if n := len(strings.Fields(text)); n != len(all) {
		t.Errorf("%d words for %d tokens", n, len(all))
	}
	if again := openai.Tokenize(text); len(again) != len(all) {
		t.Errorf("%d tokens again, want %d", len(again), len(all))
	}
	// Token ids of other vocabularies are words too.
	if text := openai.Detokenize([]uint32{0, 255, 512, 50000, 1 << 31}); len(strings.Fields(text)) != 5 {
		t.Errorf("%q, want five words", text)
	}
}
