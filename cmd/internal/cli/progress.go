package cli

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how many requests have finished, when w is a terminal.
type progress struct {
	w   io.Writer
	bar *progressbar.ProgressBar // nil until the first step
}

// NewProgress is nil when nobody would see it.
func NewProgress(w io.Writer) *progress {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return &progress{w: w}
}

// Step is nil for no progress.
func (p *progress) Step() func(finished, requests int) {
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

// Clear takes the bar off the screen.
func (p *progress) Clear() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
	}
}

// Countdown shows how many replays are done, when somebody watches. It may be
// told so by several goroutines.
type Countdown struct {
	mutex sync.Mutex
	bar   *progressbar.ProgressBar
	most  int
}

// NewCountdownTo goes to an end, and says when that will be.
func NewCountdownTo(w io.Writer, what string, end int) *Countdown {
	c := &Countdown{}
	if NewProgress(w) == nil {
		return c
	}
	c.bar = progressbar.NewOptions(end,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(true),
		progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
	return c
}

// Count shows that so many are done.
func (c *Countdown) Count(done int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.bar == nil || done <= c.most {
		return
	}
	c.most = done
	// A terminal that cannot be drawn on is no reason to end.
	_ = c.bar.Set(done)
}

// CountOf shows that so many are done of those that are expected now.
func (c *Countdown) CountOf(done, expected int) {
	c.mutex.Lock()
	if c.bar != nil && expected != c.bar.GetMax() {
		c.bar.ChangeMax(expected)
	}
	c.mutex.Unlock()
	c.Count(done)
}

// Clear takes it off the screen.
func (c *Countdown) Clear() {
	if c.bar != nil {
		_ = c.bar.Clear()
	}
}
