package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Progress draws on one line of a terminal how much is done, or says it in lines to a
// program. Several goroutines may tell it. A nil one draws nothing.
type Progress struct {
	out   *Terminal
	lines io.Writer // where lines go in place of a drawing; nil for none
	what  string

	mutex   sync.Mutex
	started time.Time
	drawn   time.Time
	most    int
}

// redraw is how long a line stays at least.
const redraw = 100 * time.Millisecond

// progressVariable is the variable of the environment that asks for lines where w is no
// terminal: "progress: 12 of 60 cells". The package for Python reads them.
const progressVariable = "REPLAY_PROGRESS"

// NewProgress returns a line about what is counted; nil when w is no terminal and nobody
// has asked for lines.
func NewProgress(w io.Writer, what string) *Progress {
	t := TerminalOf(w)
	if t == nil && os.Getenv(progressVariable) == "lines" {
		return &Progress{lines: w, what: what}
	}
	if t == nil {
		return nil
	}
	return &Progress{out: t, what: what, started: time.Now()}
}

// Show draws that so many of total are done.
func (p *Progress) Show(done, total int) {
	if p == nil || total < 1 {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if done < p.most || time.Since(p.drawn) < redraw && done < total {
		return
	}
	p.most, p.drawn = done, time.Now()
	if p.lines != nil {
		// Who no longer reads is no reason to end.
		_, _ = fmt.Fprintf(p.lines, "progress: %d of %d %s\n", done, total, p.what)
		return
	}
	share := min(1, float64(done)/float64(total))
	text := fmt.Sprintf(" %3.0f%% (%d/%d)", 100*share, done, total)
	if done > 0 && done < total {
		left := time.Duration(float64(time.Since(p.started)) * (1 - share) / share)
		text += fmt.Sprintf(" %v left", left.Round(time.Second))
	}
	width, _ := p.out.Size()
	bar := max(0, width-len(p.what)-len(text)-4)
	full := int(share * float64(bar))
	// A terminal that cannot be drawn on is no reason to end.
	_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s [%s%s]%s", p.what, strings.Repeat("=", full), strings.Repeat(" ", bar-full), text)
}

// Clear takes the line off the screen.
func (p *Progress) Clear() {
	if p != nil && p.lines == nil && !p.drawn.IsZero() {
		_, _ = io.WriteString(p.out, "\r\x1b[K")
	}
}
