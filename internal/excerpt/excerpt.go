// Package excerpt shortens what errors quote from input of any length.
package excerpt

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Most is the number of bytes of a value that an error quotes.
const Most = 80

// Cut returns text of at most Most bytes, and of longer text the beginning and "…".
func Cut[T ~string | ~[]byte](text T) string {
	if len(text) <= Most {
		return string(text)
	}
	return cutEnd(string(text[:Most+1])) + "…"
}

// CutLine returns Cut of text with each run of white space as one blank.
func CutLine[T ~string | ~[]byte](text T) string {
	return Cut(strings.Join(strings.Fields(string(text)), " "))
}

// CutMiddle returns text of at most most bytes. Of longer text it returns the beginning, the number of bytes left out,
// and the end.
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

// Longest bounds the bytes of an error that is printed, and of texts that Sprintf and Errorf quote whole, such as lists of
// names.
const Longest = 2000

// Sprintf is fmt.Sprintf, with Cut of texts of more than Longest bytes among args, and Message of errors.
func Sprintf(format string, args ...any) string {
	cutTexts(args)
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = Message(err.Error())
		}
	}
	return fmt.Sprintf(format, args...)
}

// Errorf is fmt.Errorf, with Cut of texts of more than Longest bytes among args.
func Errorf(format string, args ...any) error {
	cutTexts(args)
	return fmt.Errorf(format, args...)
}

// Message returns CutMiddle of the text of an error that becomes part of another.
func Message(text string) string { return CutMiddle(text, Longest/2) }

// cutTexts cuts the long texts of args.
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

// cutEnd returns text without its last byte, nor the beginning of the rune that the byte belongs to.
func cutEnd(text string) string {
	last := len(text) - 1
	for n := last; n > last-utf8.UTFMax; n-- {
		if utf8.RuneStart(text[n]) {
			return text[:n]
		}
	}
	return text[:last] // not UTF-8
}

// List returns the first of names, at most most, with commas between them.
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
