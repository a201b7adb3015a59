package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Progress shows how much is done, with the rate and the time remaining: as a bar on a terminal, as lines for a
// program. It may be called from several goroutines. A nil Progress shows nothing.
type Progress struct {
	bar   bar // nil: lines
	lines io.Writer
	what  string
	roomy bool // there is room for a description

	mutex sync.Mutex
	shown time.Time
	done  int
	total int
}

// bar draws on a terminal. It is a *progressbar.ProgressBar.
type bar interface {
	ChangeMax(total int)
	Set(done int) error
	Describe(text string)
	Clear() error
	Exit() error
}

// redraw is the least time between two updates.
const redraw = 100 * time.Millisecond

// progressVariable is the environment variable that asks for lines where w is not a terminal:
// "progress: 12 of 60 cells". The Python package reads them.
const progressVariable = "REPLAY_PROGRESS"

// NewProgress returns a bar that counts things of a name; nil when w is not a terminal and lines are not asked for.
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

// Show updates the number of things done and their total, at most once in 100 ms. A bar does not change once everything
// is done: the total may still grow, and Clear removes the bar otherwise.
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
	// An update that cannot be written does not end the run.
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

// Describe changes the text in front of the bar, where the terminal has room for it.
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
