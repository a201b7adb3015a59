// Package excerpt shortens quotes of input in errors.
package excerpt

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Most is the maximum number of bytes of a value that an error quotes.
const Most = 80

// Cut returns text unchanged if it has at most Most bytes. Cut returns the beginning and "…" of longer text.
func Cut[T ~string | ~[]byte](text T) string {
	if len(text) <= Most {
		return string(text)
	}
	return cutEnd(string(text[:Most+1])) + "…"
}

// CutLine replaces each run of white space in text with one blank and returns Cut of the result.
func CutLine[T ~string | ~[]byte](text T) string {
	return Cut(strings.Join(strings.Fields(string(text)), " "))
}

// CutMiddle returns text unchanged if it has at most most bytes. CutMiddle returns the beginning, the number of
// omitted bytes and the end of longer text.
func CutMiddle(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const mark = " … (%d bytes left out) … "
	half := (most - len(mark) - len("9223372036854775807")) / 2
	head, tail := cutEnd(text[:half+1]), text[len(text)-half:]
	for range utf8.UTFMax - 1 {
		if !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return head + fmt.Sprintf(mark, len(text)-len(head)-len(tail)) + tail
}

// Longest is the maximum number of bytes of a printed error, and of a text that Sprintf and Errorf quote in full.
const Longest = 2000

// Sprintf is fmt.Sprintf with shortened arguments: Cut of texts of more than Longest bytes, and Message of errors.
func Sprintf(format string, args ...any) string {
	cutTexts(args)
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = Message(err.Error())
		}
	}
	return fmt.Sprintf(format, args...)
}

// Errorf is fmt.Errorf with Cut of arguments of more than Longest bytes.
func Errorf(format string, args ...any) error {
	cutTexts(args)
	return fmt.Errorf(format, args...)
}

// Message returns CutMiddle of the text of an error that is quoted in another error.
func Message(text string) string { return CutMiddle(text, Longest/2) }

// cutTexts replaces texts of more than Longest bytes in args with Cut of them.
func cutTexts(args []any) {
	for i, arg := range args {
		switch text := arg.(type) {
		case string:
			if len(text) > Longest {
				args[i] = Cut(text)
			}
		case []byte:
			if len(text) > Longest {
				args[i] = Cut(text)
			}
		}
	}
}

// cutEnd returns text without its last byte and without the beginning of the rune that contains this byte.
func cutEnd(text string) string {
	last := len(text) - 1
	for n := last; n > last-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return text[:n]
		}
	}
	return text[:last] // text is not UTF-8
}

// List returns the first names, at most most of them, separated by commas.
func List(names []string, most int) string {
	var all []string
	for _, name := range names[:min(len(names), most)] {
		all = append(all, Cut(name))
	}
	if len(names) > most {
		all = append(all, "…")
	}
	return strings.Join(all, ", ")
}
