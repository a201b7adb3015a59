package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/replay-llm/replay/internal/terminal"
)

// Terminal is a stream on which lines may be drawn anew. Code that writes an escape sequence requires one.
type Terminal struct {
	file *os.File
	// Colors reports whether there may be any.
	Colors bool
}

// TerminalOf returns the terminal that w is; nil if w is none, or one that knows no escape sequences.
func TerminalOf(w io.Writer) *Terminal {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	draws, colors := mayDraw(os.Getenv)
	if !draws || !takesEscapes(f) {
		return nil
	}
	return &Terminal{file: f, Colors: colors}
}

// mayDraw reports whether a terminal takes escape sequences, and whether these may be colors, by the
// environment: TERM=dumb takes none, and NO_COLOR, unless it is empty, forbids the second (https://no-color.org).
func mayDraw(getenv func(string) string) (draws, colors bool) {
	draws = getenv("TERM") != "dumb"
	return draws, draws && getenv("NO_COLOR") == ""
}

// Size returns how many columns and lines the terminal has at the moment.
func (t *Terminal) Size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(t.file.Fd()))
	if err != nil || columns < 1 || lines < 1 {
		return terminal.Width, 24
	}
	return columns, lines
}
