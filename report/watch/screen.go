package watch

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Screen shows a View now and then. Its methods are called by one goroutine at a time, the replay's own.
type Screen struct {
	View *View
	Out  io.Writer
	// Size, if not nil, returns the size of the terminal Out, for frames in place; nil: Out gets a line each time, and
	// one at the end.
	Size   func() Size
	Colors bool             // the terminal may be given some
	Every  time.Duration    // how long a frame stays at least; a line comes as often
	Now    func() time.Time // real time
	Prefix string           // of lines

	began time.Time // the first call
	shown time.Time // of what is shown last
	drawn []string  // the frame on the terminal
}

// Progress notes how many requests have finished of how many, and shows how the replay stands if it is time to.
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
	// A terminal that cannot be drawn on is no reason to end.
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
	_, _ = io.WriteString(s.Out, b.String()) // at once, lest half a frame is seen
}

// home returns the control sequence that moves the cursor to the begin of the frame, which may have more lines than
// before if the terminal has become narrower.
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

// columnsOf returns how wide a line is.
func columnsOf(line string) int {
	for _, color := range []string{faint, yellow, reset} {
		line = strings.ReplaceAll(line, color, "")
	}
	return utf8.RuneCountInString(line)
}

// Clear takes the frame off the terminal, so that something else can be written; the next one is drawn below that.
func (s *Screen) Clear() {
	if len(s.drawn) > 0 {
		_, _ = io.WriteString(s.Out, s.home(s.Size())+"\x1b[J")
		s.drawn = nil
	}
}

// Close ends what is shown. A replay that has come to its end leaves a last line in a log.
func (s *Screen) Close(ended bool) {
	s.Clear()
	if s.Size == nil && ended {
		_, _ = fmt.Fprintf(s.Out, "%s%s\n", s.Prefix, s.View.EndLine())
	}
}
