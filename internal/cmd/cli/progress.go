package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Progress shows completed work, the rate and the remaining time. Progress prints a bar on a terminal, or lines for
// programs. Progress is safe for concurrent use. A nil Progress prints nothing.
type Progress struct {
	bar   bar // nil: print lines
	lines io.Writer
	what  string
	roomy bool // the terminal is wide enough for a description

	mutex sync.Mutex
	shown time.Time
	done  int
	total int
}

// bar draws a bar on a terminal. *progressbar.ProgressBar implements bar.
type bar interface {
	ChangeMax(total int)
	Set(done int) error
	Describe(text string)
	Clear() error
	Exit() error
}

// redraw is the minimum time between two updates.
const redraw = 100 * time.Millisecond

// progressVariable is the environment variable that enables lines such as "progress: 12 of 60 cells" if w is not a
// terminal. The Python package reads these lines.
const progressVariable = "REPLAY_PROGRESS"

// NewProgress returns a Progress with a counter. what is the name of the counted items, for example cells.
// NewProgress returns nil if w is not a terminal and lines are not enabled.
func NewProgress(w io.Writer, what string) *Progress {
	if t := TerminalOf(w); t != nil {
		columns, _ := t.Size()
		return newBar(t.file, what, columns)
	}
	if os.Getenv(progressVariable) == "lines" {
		return &Progress{lines: w, what: what}
	}
	return nil
}

// Show sets the completed and total counts, at most once per 100 ms. A bar ignores updates with equal counts, because
// the total may still grow. Clear removes the bar.
func (p *Progress) Show(done, total int) {
	if p == nil || total < 1 {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if done < p.done || time.Since(p.shown) < redraw && done < total {
		return
	}
	p.done, p.shown = done, time.Now()
	// A failed write does not end the run.
	switch {
	case p.bar == nil:
		_, _ = fmt.Fprintf(p.lines, "progress: %d of %d %s\n", done, total, p.what)
	case done < total:
		if total != p.total {
			p.total = total
			p.bar.ChangeMax(total)
		}
		_ = p.bar.Set(done)
	}
}

// Describe changes the text before the bar if the terminal is wide enough.
func (p *Progress) Describe(text string) {
	if p == nil || !p.roomy {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.bar.Describe(text)
}

// Clear removes the bar from the terminal. Later updates are ignored.
func (p *Progress) Clear() {
	if p == nil || p.bar == nil {
		return
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	_ = p.bar.Clear()
	_ = p.bar.Exit()
}
