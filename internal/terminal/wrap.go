// Package terminal fits text into the columns of a terminal.
package terminal

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Width is the number of columns that text for people keeps to.
const Width = 80

// WrapLine breaks a line at spaces if it is wider than Width; continued lines are indented by indent columns. A word is
// never broken, however long.
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

// WrapText breaks every line of a text, which ends with one; continued lines are indented by more columns than the
// line.
func WrapText(text string, more int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		b.WriteString(WrapLine(line, len(line)-len(strings.TrimLeft(line, " "))+more) + "\n")
	}
	return b.String()
}

// lastSpace returns the place to break a line: the last space within Width columns, else the first one after them; -1
// if there is none. Spaces at the beginning do not count.
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

// Digits returns how many digits after the point a number has in a narrow table: four or five digits in all.
func Digits(v float64) int {
	switch v = math.Abs(v); {
	case v >= 1000:
		return 0
	case v >= 100:
		return 1
	}
	return 2
}
