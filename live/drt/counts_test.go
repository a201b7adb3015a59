package drt_test

import (
	"sync"
	"sync/atomic"
	"time"
)

// counts are metrics of an endpoint as numbers.
type counts struct {
	received, started, finished, cancelled, sent atomic.Int64

	mu     sync.Mutex
	failed map[string]int
}

func (c *counts) Received(int, time.Duration) { c.received.Add(1) }
func (c *counts) Started()                    { c.started.Add(1) }
func (c *counts) Finished(time.Duration)      { c.finished.Add(1) }
func (c *counts) First(time.Duration)         {}
func (c *counts) Sent(bytes int)              { c.sent.Add(int64(bytes)) }
func (c *counts) Cancelled()                  { c.cancelled.Add(1) }

func (c *counts) Failed(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = make(map[string]int)
	}
	c.failed[kind]++
}

func (c *counts) failures(kind string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed[kind]
}
