// Package terminal wraps text at the width of a terminal.
package terminal

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Width is the maximum number of columns of printed text.
const Width = 80

// WrapLine breaks a line at spaces if it is wider than Width. Continuation lines are indented by indent columns.
// Words are never broken.
func WrapLine(line string, indent int) string {
	var b strings.Builder
	for utf8.RuneCountInString(line) > Width {
		at := lastSpace(line, indent)
		if at < 0 {
			break
		}
		b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[at:], " ")
	}
	return b.String() + line
}

// WrapText wraps every line of a text that ends with a line break. Continuation lines are indented by more additional
// columns.
func WrapText(text string, more int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		b.WriteString(WrapLine(line, len(line)-len(strings.TrimLeft(line, " "))+more) + "\n")
	}
	return b.String()
}

// lastSpace returns the index at which to break a line: the last space within Width columns, or otherwise the first
// space after them. lastSpace ignores leading spaces and returns -1 if there is no such space.
func lastSpace(line string, indent int) int {
	at, columns := -1, 0
	begun := false
	for i, r := range line {
		switch {
		case r != ' ':
			begun = true
		case begun && columns >= indent && (columns <= Width || at < 0):
			at = i
		}
		if columns++; columns > Width+1 && at >= 0 {
			break
		}
	}
	return at
}

// Digits returns the number of decimal places of a number in a narrow table, so that it has about four digits.
func Digits(v float64) int {
	switch v = math.Abs(v); {
	case v >= 1000:
		return 0
	case v >= 100:
		return 1
	}
	return 2
}
