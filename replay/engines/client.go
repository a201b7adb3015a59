package engines

import (
	"fmt"
	"math"
	"time"

	"github.com/replay-llm/replay/sim"
)

// Client is the retry and timeout rules of clients.
type Client struct {
	// Retries is the maximum number of retries of a request that was shed or lost, or that got no first token before
	// the timeout.
	Retries int
	Backoff sim.Time // wait before the first retry, >= 0
	Factor  float64  // growth of the wait per retry, >= 1
	Longest sim.Time // limit of the wait; 0: no limit
	Jitter  float64  // random share of the wait that may be subtracted, 0 to 1

	Timeout sim.Time // until the first token of each attempt; 0: none
}

// MostRetries is the limit of Client.Retries.
const MostRetries = 1000

// WaitBefore returns the wait of a client before the nth retry, from 1.
func (c *Client) WaitBefore(n int, seed uint64, id sim.RequestID) sim.Time {
	wait := c.Backoff
	for i := 1; i < n && (c.Longest == 0 || wait < c.Longest); i++ {
		wait *= sim.Time(c.Factor)
	}
	if c.Longest > 0 {
		wait = min(wait, c.Longest)
	}
	if c.Jitter > 0 {
		wait *= sim.Time(1 - float64(c.Jitter*sim.NewRand(seed, fmt.Sprintf("client %d %d", id, n)).Float64()))
	}
	return wait
}

// CheckClient returns an error for invalid clients.
func (t *Topology) CheckClient() error {
	c := t.Client
	switch {
	case c == nil:
		return nil
	case c.Retries < 0 || c.Retries > MostRetries:
		return fmt.Errorf("clients send a request again %d times, must be 0 to %d", c.Retries, MostRetries)
	case !(c.Backoff >= 0) || !(c.Factor >= 1) || !(c.Longest >= 0) || !(c.Jitter >= 0 && c.Jitter <= 1):
		return fmt.Errorf("clients wait %v ms, times %v each time, at most %v ms, less a share of %v, must be >= 0, >= 1, >= 0 and 0 to 1",
			float64(c.Backoff), c.Factor, float64(c.Longest), c.Jitter)
	case !(c.Timeout >= 0) || math.IsInf(float64(c.Timeout), 0):
		return fmt.Errorf("clients wait %v ms for a first token, must be a finite time >= 0", float64(c.Timeout))
	}
	unjittered := *c
	unjittered.Jitter = 0
	if last := unjittered.WaitBefore(c.Retries, 0, 0); !(last < mostMS) {
		return fmt.Errorf("clients wait %v ms before the last of %d retries, must be less than a year: a max, or fewer retries", float64(last), c.Retries)
	}
	return nil
}

// mostMS is one year.
const mostMS = sim.Time(365 * 24 * time.Hour / time.Millisecond)
