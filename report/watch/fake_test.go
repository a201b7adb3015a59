package watch_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// fakeTerminal is a terminal that supports the output of Screen and rejects all other output.
type fakeTerminal struct {
	t           *testing.T
	columns     int
	cells       [][]string // a line each; a cell is a letter and its color
	row, column int
	color       string
	frames      int // that have been drawn
	scrolled    int // lines that have gone
}

func newTerminal(t *testing.T, columns, lines int) *fakeTerminal {
	f := &fakeTerminal{t: t, columns: columns, cells: make([][]string, lines)}
	for i := range f.cells {
		f.cells[i] = make([]string, columns)
	}
	return f
}

// Write interprets the written text.
func (f *fakeTerminal) Write(text []byte) (int, error) {
	for rest := string(text); rest != ""; {
		switch {
		case strings.HasPrefix(rest, "\x1b["):
			end := strings.IndexAny(rest, "AKJm")
			if end < 0 {
				f.t.Fatalf("an escape sequence that never ends: %q", rest)
			}
			f.escape(rest[2:end], rest[end])
			rest = rest[end+1:]
		default:
			for _, r := range rest {
				f.put(r)
				rest = rest[len(string(r)):]
				break
			}
		}
	}
	return len(text), nil
}

func (f *fakeTerminal) escape(number string, kind byte) {
	switch kind {
	case 'A':
		n, err := strconv.Atoi(number)
		if err != nil {
			f.t.Fatalf("up by %q", number)
		}
		f.row = max(0, f.row-n)
	case 'K':
		clear(f.cells[f.row][min(f.column, f.columns-1):])
	case 'J':
		f.frames++
		clear(f.cells[f.row][min(f.column, f.columns-1):])
		for _, line := range f.cells[f.row+1:] {
			clear(line)
		}
	case 'm':
		f.color = map[string]string{"0": "", "2": "faint", "33": "yellow"}[number]
	}
}

// put shows a character, on the next line if the current line is full.
func (f *fakeTerminal) put(r rune) {
	switch r {
	case '\r':
		f.column = 0
	case '\n':
		f.column = 0
		f.feed()
	default:
		if r < ' ' {
			f.t.Fatalf("%q is written", r)
		}
		if f.column == f.columns {
			f.column = 0
			f.feed()
		}
		f.cells[f.row][f.column] = string(r) + f.color
		f.column++
	}
}

func (f *fakeTerminal) feed() {
	if f.row++; f.row == len(f.cells) {
		f.row--
		f.scrolled++
		f.cells = append(f.cells[1:], make([]string, f.columns))
	}
}

// resize changes the width of the terminal. Lines that do not fit continue on the next line, as in most terminals.
func (f *fakeTerminal) resize(columns int) {
	var cells [][]string
	row := 0
	for i, line := range f.cells {
		if i == f.row {
			row = len(cells)
		}
		full := len(line)
		for full > 0 && line[full-1] == "" {
			full--
		}
		for first := true; first || full > 0; first = false {
			part := make([]string, columns)
			n := copy(part, line[:min(full, len(line))])
			n = min(n, full)
			line, full = line[n:], full-n
			cells = append(cells, part)
		}
	}
	lines := len(f.cells)
	gone := max(0, row-lines+1)
	f.scrolled += gone
	cells = cells[gone:]
	for len(cells) < lines {
		cells = append(cells, make([]string, columns))
	}
	f.cells, f.columns, f.row, f.column = cells[:lines], columns, row-gone, 0
}

// String returns the visible text, with the color after each line.
func (f *fakeTerminal) String() string {
	var b strings.Builder
	for _, line := range f.cells {
		text, color := "", ""
		for _, cell := range line {
			letter, rest := " ", ""
			if cell != "" {
				r := []rune(cell)
				letter, rest = string(r[0]), string(r[1:])
			}
			text += letter
			if rest != "" {
				color = " (" + rest + ")"
			}
		}
		fmt.Fprintf(&b, "|%s%s\n", strings.TrimRight(text, " "), color)
	}
	return strings.TrimRight(strings.ReplaceAll(b.String()+"$", "|\n|", "|\n|"), "$")
}
