package plan

import (
	"bytes"
	"iter"
	"sync/atomic"
)

// wholeLines yields the lines of text that end in a newline, without it, and
// their numbers from 1.
func wholeLines(text []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for n := 1; ; n++ {
			line, rest, ok := bytes.Cut(text, []byte{'\n'})
			if !ok || !yield(n, line) {
				return
			}
			text = rest
		}
	}
}

// counter counts what several goroutines have done.
type counter struct {
	done atomic.Int64
	tell func(int)
}

func newCounter(done int, tell func(int)) *counter {
	c := &counter{tell: tell}
	c.done.Store(int64(done))
	return c
}

func (c *counter) add() {
	if n := c.done.Add(1); c.tell != nil {
		c.tell(int(n))
	}
}
