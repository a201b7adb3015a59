package offline

import (
	"errors"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
)

// witness keeps the clusters of the replays that it drives, in order, so that a test can read their final state.
type witness []*cluster

// drive makes cluster drivers with events. If single is set, the drivers take one pass at a time.
func (w *witness) drive(single bool) maker {
	return func(r *run, _ *journal) (driver, error) {
		c, err := newCluster(r)
		if err != nil {
			return nil, err
		}
		for _, p := range c.pools {
			p.metered = p.metered || single
		}
		*w = append(*w, c)
		return c.runEvents, nil
	}
}

// isStuck reports whether a replay ended with unfinished requests: nothing could continue, or a request does not fit.
func isStuck(err error) bool {
	var stall *harness.StalledError
	var oversize *engines.OversizeError
	return errors.As(err, &stall) || errors.As(err, &oversize)
}
