package openai

import (
	_ "embed"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

// words holds the words that stand for tokens, in alphabetical order, each in wordSize bytes of a separate
// line. GPT-2, OpenAI's cl100k and o200k, Llama 2 and 3, Qwen 3, Gemma 3, DeepSeek V3 and all tokenizers that
// split at spaces count each as one token, at the beginning of a text and after a space.
//
//go:embed words.txt
var words string

const (
	wordCount = 1000
	wordSize  = 8
	firstWord = 1000 // the token of the first word, a multiple of wordCount; mockers draw theirs from these

	firstByte = 256     // the token of the byte 0; those of the other bytes follow
	firstTwo  = 2 << 24 // the token of two bytes 0; the first is the more significant one
	firstFour = 4 << 24 // that of four bytes of ASCII, 7 bits each
	afterFour = 20 << 24
	// That of no letters: the small letters of a run are the digits 1 to 26 of a number to
	// base 27, and a space before them is lettersSpan.
	firstLetters = 1 << 30
	maxLetters   = 6
	lettersSpan  = 27 * 27 * 27 * 27 * 27 * 27
)

// Of three bytes firstTwo + 1<<24 is the first token.

// wordOf returns the word of a token that is no piece of a text.
func wordOf(token uint32) string {
	at := int(token%wordCount) * (wordSize + 1)
	return strings.TrimRight(words[at:at+wordSize], " ")
}

// findWord returns the token of a word, and reports whether it has one.
func findWord(word string) (uint32, bool) {
	if len(word) > wordSize {
		return 0, false
	}
	var padded [wordSize]byte
	for i := copy(padded[:], word); i < wordSize; i++ {
		padded[i] = ' '
	}
	key := binary.BigEndian.Uint64(padded[:])
	low, high := 0, wordCount
	for low < high {
		middle := (low + high) / 2
		if keyOf(middle) < key {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return uint32(firstWord + low), low < wordCount && keyOf(low) == key
}

// keyOf returns a word as a number; words are in the order of theirs.
func keyOf(i int) uint64 {
	w := words[i*(wordSize+1):][:wordSize]
	return uint64(w[0])<<56 | uint64(w[1])<<48 | uint64(w[2])<<40 | uint64(w[3])<<32 |
		uint64(w[4])<<24 | uint64(w[5])<<16 | uint64(w[6])<<8 | uint64(w[7])
}

// Tokenize returns the tokens of a text, about as many as the tokenizers of language models make of English. A
// text is cut before each word, number and run of signs, with the space before it. Each of the words is one
// token. Of the rest, a token is six small letters, four bytes of ASCII, or three other bytes. Speaker is the
// inverse.
func Tokenize(text string) []uint32 {
	tokens := make([]uint32, 0, len(text)/4+1)
	for at := 0; at < len(text); {
		n := pieceLength(text[at:])
		piece := text[at : at+n]
		first := at == 0 || text[at-1] == '\n'
		at += n
		if bare := strings.TrimPrefix(piece, " "); first == (len(bare) == n) {
			if t, ok := findWord(bare); ok {
				tokens = append(tokens, t)
				continue
			}
		}
		tokens = appendBytes(tokens, piece)
	}
	return tokens
}

// pieceLength returns how long the piece is that text begins with.
func pieceLength(text string) int {
	n := 0
	if text[0] == ' ' {
		n++
	}
	if n == len(text) {
		return n
	}
	kind := kindOf(text[n])
	for n < len(text) && kindOf(text[n]) == kind && (kind != '\n' || n == 0) {
		n++
	}
	return max(n, 1)
}

// kindOf returns the same for letters, for digits, for white space and for signs.
func kindOf(b byte) byte {
	switch {
	case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= utf8.RuneSelf:
		return 'a'
	case b >= '0' && b <= '9':
		return '0'
	case b == ' ', b == '\n', b == '\t', b == '\r':
		return '\n'
	}
	return '.'
}

// appendBytes appends the tokens of a piece that is no word.
func appendBytes(tokens []uint32, piece string) []uint32 {
	for len(piece) > 0 {
		if t, n := lettersToken(piece); n > 4 {
			tokens, piece = append(tokens, t), piece[n:]
			continue
		}
		var n int
		var ascii, bytes uint32
		plain := true
		for n < min(4, len(piece)) {
			b := piece[n]
			plain = plain && b < utf8.RuneSelf
			if n == 3 && !plain {
				break
			}
			ascii, bytes = ascii<<7|uint32(b), bytes<<8|uint32(b)
			n++
		}
		switch n {
		case 1:
			tokens = append(tokens, firstByte+bytes)
		case 4:
			tokens = append(tokens, firstFour+ascii)
		default:
			tokens = append(tokens, firstTwo+uint32(n-2)<<24+bytes)
		}
		piece = piece[n:]
	}
	return tokens
}

// lettersToken returns the token of the small letters that a text begins with, perhaps after
// a space, and how long they are.
func lettersToken(text string) (token uint32, n int) {
	token = firstLetters
	if text[0] == ' ' {
		token, n = token+lettersSpan, 1
	}
	var digits uint32
	for most := n + maxLetters; n < min(most, len(text)) && text[n] >= 'a' && text[n] <= 'z'; n++ {
		digits = digits*27 + uint32(text[n]-'a') + 1
	}
	return token + digits, n
}

// appendLetters appends the bytes of such a token, and reports whether it is one.
func appendLetters(dst []byte, t uint32) ([]byte, bool) {
	if t -= firstLetters; t >= 2*lettersSpan {
		return dst, false
	}
	begin := len(dst)
	if t >= lettersSpan {
		t -= lettersSpan
		dst = append(dst, ' ')
	}
	letters := len(dst)
	for ; t > 0; t /= 27 {
		if t%27 == 0 {
			return dst[:begin], false
		}
		dst = append(dst, 'a'+byte(t%27-1))
	}
	slices.Reverse(dst[letters:])
	return dst, len(dst) > letters
}

// tokenBytes appends the bytes of a token that is a piece of a text, and reports
// whether it is one.
func tokenBytes(dst []byte, t uint32) ([]byte, bool) {
	switch {
	case t >= firstByte && t < firstByte+256:
		return append(dst, byte(t-firstByte)), true
	case t >= firstLetters:
		return appendLetters(dst, t)
	case t < firstTwo, t >= afterFour:
		return dst, false
	case t < firstTwo+1<<24:
		if t -= firstTwo; t >= 1<<16 {
			return dst, false
		}
		return append(dst, byte(t>>8), byte(t)), true
	case t < firstFour:
		t -= firstTwo + 1<<24
		return append(dst, byte(t>>16), byte(t>>8), byte(t)), true
	}
	t -= firstFour
	return append(dst, byte(t>>21&127), byte(t>>14&127), byte(t>>7&127), byte(t&127)), true
}

// Speaker makes text of tokens as they come. Tokens that are no piece of a text are
// words, after a space except at the beginning of a text or line. Of a character of
// several bytes nothing is said before it is whole. Its zero value is ready.
type Speaker struct {
	held  []byte
	begun bool // no word comes without a space
}

// AppendToken appends the text that a token adds.
func (s *Speaker) AppendToken(dst []byte, token uint32) []byte {
	var room [8]byte
	if bytes, ok := tokenBytes(room[:0], token); ok {
		s.held = append(s.held, bytes...)
		for len(s.held) > 0 && utf8.FullRune(s.held) {
			r, n := utf8.DecodeRune(s.held)
			dst = utf8.AppendRune(dst, r)
			s.held = s.held[:copy(s.held, s.held[n:])]
			s.begun = r != '\n'
		}
		return dst
	}
	dst = s.AppendRest(dst)
	if s.begun {
		dst = append(dst, ' ')
	}
	s.begun = true
	return append(dst, wordOf(token)...)
}

// AppendRest appends what remains at the end: a character that was not whole.
func (s *Speaker) AppendRest(dst []byte) []byte {
	if len(s.held) == 0 {
		return dst
	}
	s.held, s.begun = s.held[:0], true
	return utf8.AppendRune(dst, utf8.RuneError)
}

// Detokenize returns the text of tokens.
func Detokenize(tokens []uint32) string {
	var s Speaker
	var text []byte
	for _, t := range tokens {
		text = s.AppendToken(text, t)
	}
	return string(s.AppendRest(text))
}
