package openai

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// firstByte is the token of the byte 0; those of the other bytes follow.
const firstByte = 256

// Tokenize makes one token of each byte.
func Tokenize(text string) []uint32 {
	tokens := make([]uint32, len(text))
	for i := range len(text) {
		tokens[i] = firstByte + uint32(text[i])
	}
	return tokens
}

// speaker makes text of tokens as they come. Of a character of several bytes
// nothing is said before it is whole. What is no byte is told as a number.
type speaker struct{ held []byte }

// addTokens returns the text that tokens add.
func (s *speaker) addTokens(tokens []uint32) string {
	var text strings.Builder
	for _, t := range tokens {
		if t >= firstByte && t < firstByte+256 {
			s.held = append(s.held, byte(t-firstByte))
			s.moveWhole(&text)
			continue
		}
		text.WriteString(s.flushRest())
		text.WriteByte(' ')
		text.WriteString(strconv.FormatUint(uint64(t), 10))
	}
	return text.String()
}

// moveWhole moves the characters that are whole, or never will be, into text.
func (s *speaker) moveWhole(text *strings.Builder) {
	for len(s.held) > 0 && utf8.FullRune(s.held) {
		r, n := utf8.DecodeRune(s.held)
		text.WriteRune(r)
		s.held = s.held[:copy(s.held, s.held[n:])]
	}
}

// flushRest returns what remains at the end: a character that was not whole.
func (s *speaker) flushRest() string {
	if len(s.held) == 0 {
		return ""
	}
	s.held = s.held[:0]
	return string(utf8.RuneError)
}
