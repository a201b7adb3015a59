package openai

import (
	_ "embed"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

// words contains the words of the word tokens in alphabetical order. Each line has wordSize bytes. Each word is one
// token at the beginning of a text and after a space. The words are single tokens in GPT-2, OpenAI's cl100k and
// o200k, Llama 2 and 3, Qwen 3, Gemma 3 and DeepSeek V3. The words are also single tokens in all tokenizers that
// split at spaces.
//
//go:embed words.txt
var words string

const (
	wordCount = 1000
	wordSize  = 8
	firstWord = 1000 // token of the first word, a multiple of wordCount; mockers draw their tokens from these words

	firstByte = 256     // token of the byte 0; the tokens of the other bytes follow
	firstTwo  = 2 << 24 // token of two zero bytes; the first byte is the more significant one
	firstFour = 4 << 24 // token of four zero bytes of ASCII, 7 bits each
	afterFour = 20 << 24
	// firstLetters is the token of no letters. The lower-case letters of a token are digits 1 to 26 of a base-27
	// number. A space before the letters adds lettersSpan.
	firstLetters = 1 << 30
	maxLetters   = 6
	lettersSpan  = 27 * 27 * 27 * 27 * 27 * 27
)

// Tokens of three bytes start at firstTwo + 1<<24.

// wordOf returns the word of a word token.
func wordOf(token uint32) string {
	at := int(token%wordCount) * (wordSize + 1)
	return strings.TrimRight(words[at:at+wordSize], " ")
}

// findWord returns the token of a word, and reports whether the word has a token.
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

// keyOf returns word i as a number. The numbers are in the order of the words.
func keyOf(i int) uint64 {
	w := words[i*(wordSize+1):][:wordSize]
	return uint64(w[0])<<56 | uint64(w[1])<<48 | uint64(w[2])<<40 | uint64(w[3])<<32 |
		uint64(w[4])<<24 | uint64(w[5])<<16 | uint64(w[6])<<8 | uint64(w[7])
}

// Tokenize returns the tokens of a text. The number of tokens is close to that of real tokenizers for English. The
// text is split before each word, number and run of punctuation, including the space before it. A known word is one
// token. Any other token is up to six lower-case letters, four bytes of ASCII, or three other bytes. Speaker is the
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

// pieceLength returns the length of the first piece of text.
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

// kindOf returns the class of a byte: letter, digit, white space or punctuation.
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

// appendBytes appends the tokens of a piece that is not a known word.
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

// lettersToken returns the token of the lower-case letters at the beginning of a text, and their length. A space may
// precede the letters.
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

// appendLetters appends the bytes of a letters token, and reports whether t is a letters token.
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

// tokenBytes appends the bytes of a token, and reports whether the token encodes bytes. Word tokens do not.
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

// Speaker converts a stream of tokens to text. A word token becomes a word after a space, or without the space at the
// beginning of a text or line. A character of several bytes is appended only when it is complete. The zero value is
// ready to use.
type Speaker struct {
	held  []byte
	begun bool // the next word needs a space before it
}

// AppendToken appends the text of the next token.
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

// AppendRest appends the replacement character if the last character is incomplete.
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
