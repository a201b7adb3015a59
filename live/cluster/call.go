package cluster

import (
	"sync"
	"time"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/scheduler"
)

// call is what is noted about one request while it is served: a route.Observer.
type call struct {
	placed func() // when it has found its first worker, or waits for one

	mu       sync.Mutex
	worker   uint64    // that was chosen last
	admitted time.Time // when the first worker had taken it
	reused   int       // prompt tokens that some worker found cached, the most of any
	at       time.Time // when the chunk at hand was read
}

// Placed lets the next request arrive.
func (c *call) Placed(_ scheduler.Role, worker uint64) {
	c.mu.Lock()
	c.worker = worker
	c.mu.Unlock()
	c.placed()
}

// Taken notes the admission.
func (c *call) Taken(_ scheduler.Role, worker uint64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worker = worker
	if c.admitted.IsZero() {
		c.admitted = at
	}
}

// Read notes when a chunk came.
func (c *call) Read(_ scheduler.Role, chunk *engine.Chunk, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
	if u := chunk.CompletionUsage; u != nil && u.PromptTokensDetails != nil {
		c.reused = max(c.reused, int(u.PromptTokensDetails.CachedTokens))
	}
}

func (c *call) readAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *call) admission() (at time.Time, reused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.admitted, c.reused
}

// wrapError is err with the worker it came from, if there is one.
func (c *call) wrapError(tokens int, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worker == 0 {
		return err
	}
	return &workerError{c.worker, tokens, err}
}
