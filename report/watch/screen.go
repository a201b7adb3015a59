package watch

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Screen shows a View at intervals. The methods of a Screen are called by one goroutine at a time, the goroutine of
// the replay.
type Screen struct {
	View *View
	Out  io.Writer
	// Size, if not nil, returns the size of the terminal Out, and frames are drawn in place. If nil, Out gets a line
	// each time, and a final line.
	Size   func() Size
	Colors bool             // whether the terminal supports colors
	Every  time.Duration    // minimum time between two frames or lines
	Now    func() time.Time // real time
	Prefix string           // prefix of lines

	began time.Time // the first call
	shown time.Time // of what is shown last
	drawn []string  // the frame on the terminal
}

// Progress receives the number of finished requests and of all requests. Progress shows the state of the replay if
// the interval has passed.
func (s *Screen) Progress(done, total int) {
	now := s.Now()
	if s.began.IsZero() {
		s.began = now
		s.shown = now
	}
	s.View.Count(done, total)
	if now.Sub(s.shown) < s.Every {
		return
	}
	s.shown = now
	s.show(now)
}

func (s *Screen) show(now time.Time) {
	// A failed write to the terminal does not end the replay.
	if s.Size == nil {
		_, _ = fmt.Fprintf(s.Out, "%s%s\n", s.Prefix, s.View.Line())
		return
	}
	size := s.Size()
	var b strings.Builder
	b.WriteString(s.home(size))
	s.drawn = s.View.Frame(size, now.Sub(s.began), s.Colors)
	for _, line := range s.drawn {
		b.WriteString(line + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	_, _ = io.WriteString(s.Out, b.String()) // one write, so that no half frame is visible
}

// home returns the control sequence that moves the cursor to the start of the frame. The frame may have more lines
// than before if the terminal has become narrower.
func (s *Screen) home(size Size) string {
	up := 0
	for _, line := range s.drawn {
		up += max(1, (columnsOf(line)+size.Columns-1)/max(size.Columns, 1))
	}
	if up == 0 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", min(up, max(size.Lines-1, 1)))
}

// columnsOf returns the width of a line.
func columnsOf(line string) int {
	for _, color := range []string{faint, yellow, reset} {
		line = strings.ReplaceAll(line, color, "")
	}
	return utf8.RuneCountInString(line)
}

// Clear removes the frame from the terminal, so that other text can be written. The next frame is drawn below this
// text.
func (s *Screen) Clear() {
	if len(s.drawn) > 0 {
		_, _ = io.WriteString(s.Out, s.home(s.Size())+"\x1b[J")
		s.drawn = nil
	}
}

// Close removes the frame. If the replay has completed, Close writes a final line to a log.
func (s *Screen) Close(ended bool) {
	s.Clear()
	if s.Size == nil && ended {
		_, _ = fmt.Fprintf(s.Out, "%s%s\n", s.Prefix, s.View.EndLine())
	}
}
