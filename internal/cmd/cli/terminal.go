package cli

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/replay-llm/replay/internal/terminal"
)

// Terminal is a stream that supports redrawing lines. Code that writes escape sequences requires a Terminal.
type Terminal struct {
	file *os.File
	// Colors reports whether colors are enabled.
	Colors bool
}

// TerminalOf returns w as a Terminal. TerminalOf returns nil if w is not a terminal or does not support escape
// sequences.
func TerminalOf(w io.Writer) *Terminal {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	draws, colors := mayDraw(os.Getenv)
	if !draws || !supportsEscapes(f) {
		return nil
	}
	return &Terminal{file: f, Colors: colors}
}

// mayDraw reports whether the environment permits escape sequences, and whether it permits colors. TERM=dumb forbids
// escape sequences and colors. A non-empty NO_COLOR forbids colors (https://no-color.org).
func mayDraw(getenv func(string) string) (draws, colors bool) {
	draws = getenv("TERM") != "dumb"
	return draws, draws && getenv("NO_COLOR") == ""
}

// Size returns the current number of columns and lines.
func (t *Terminal) Size() (columns, lines int) {
	columns, lines, err := term.GetSize(int(t.file.Fd()))
	if err != nil || columns < 1 || lines < 1 {
		return terminal.Width, 24
	}
	return columns, lines
}
