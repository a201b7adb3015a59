package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how many requests have finished, when w is a terminal.
type progress struct {
	w   io.Writer
	bar *progressbar.ProgressBar // nil until the first step
}

// newProgress is nil when nobody would see it.
func newProgress(w io.Writer) *progress {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &progress{w: w}
}

// step is nil for no progress.
func (p *progress) step() func(finished, requests int) {
	if p == nil {
		return nil
	}
	return func(finished, requests int) {
		if p.bar == nil {
			p.bar = progressbar.NewOptions(requests,
				progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription("requests"),
				progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond),
				progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
		}
		// A terminal that cannot be drawn on is no reason to end a replay.
		_ = p.bar.Set(finished)
	}
}

// clear takes the bar off the screen.
func (p *progress) clear() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}
