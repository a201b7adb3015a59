package main

import (
	"io"
	"sync"

	"github.com/schollz/progressbar/v3"
	"time"
)

// countdown shows how many replays are done, when somebody watches. It may be
// told so by several goroutines.
type countdown struct {
	mutex sync.Mutex
	bar   *progressbar.ProgressBar
	most  int
}

// newCountdownTo goes to an end, and says when that will be.
func newCountdownTo(w io.Writer, what string, end int) *countdown {
	c := &countdown{}
	if newProgress(w) == nil {
		return c
	}
	c.bar = progressbar.NewOptions(end,
		progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetPredictTime(true),
		progressbar.OptionFullWidth(), progressbar.OptionClearOnFinish())
	return c
}

// count shows that so many are done.
func (c *countdown) count(done int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.bar == nil || done <= c.most {
		return
	}
	c.most = done
	// A terminal that cannot be drawn on is no reason to end.
	_ = c.bar.Set(done)
}

// countOf shows that so many are done of those that are expected now.
func (c *countdown) countOf(done, expected int) {
	c.mutex.Lock()
	if c.bar != nil && expected != c.bar.GetMax() {
		c.bar.ChangeMax(expected)
	}
	c.mutex.Unlock()
	c.count(done)
}

// clear takes it off the screen.
func (c *countdown) clear() {
	if c.bar != nil {
		_ = c.bar.Clear()
	}
}
