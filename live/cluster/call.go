package cluster

import (
	"sync"
	"time"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/scheduler"
)

// call records the progress of one request. call is a route.Observer.
type call struct {
	placed func() // called when the request has a worker or waits for a worker

	mu       sync.Mutex
	worker   uint64    // the latest chosen worker
	admitted time.Time // when the first worker accepted the request
	reused   int       // cached prompt tokens: the maximum over all workers
	at       time.Time // when the current chunk was read
}

// Placed records the worker and allows the next request to arrive.
func (c *call) Placed(_ scheduler.Role, worker uint64) {
	c.mu.Lock()
	c.worker = worker
	c.mu.Unlock()
	c.placed()
}

// Taken records the admission.
func (c *call) Taken(_ scheduler.Role, worker uint64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.worker = worker
	if c.admitted.IsZero() {
		c.admitted = at
	}
}

// Read records the time of a chunk and its number of cached tokens.
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

// wrapError adds the worker of an error, if a worker was chosen.
func (c *call) wrapError(tokens int, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worker == 0 {
		return err
	}
	return &workerError{c.worker, tokens, err}
}
