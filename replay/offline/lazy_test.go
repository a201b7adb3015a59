package offline

import (
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// TestLazilyEqualsCluster compares the lazy driver, which uses events only while the router holds requests back, with
// the cluster. TestLazilyEqualsCluster compares only results, because the router calls between two arrivals are
// ordered by worker. If several workers stall, the errors may name different workers.
func TestLazilyEqualsCluster(t *testing.T) {
	held := 0
	each(t, 1000, func(t *testing.T, _ draw, x *trial, text string) bool {
		x.aggregate()
		if x.cfg.Choice().Info().Name != policy.KV {
			config, threshold := router.DefaultConfig(), 0.3
			config.QueueThreshold = &threshold
			x.cfg.Router = policy.KV.Configure(&config)
		}
		if x.cfg.Admission.Mode == loadgen.Concurrency || x.cfg.Workload.MultiTurn() {
			return false
		}
		a, b := x.run(byLazily(&held)), x.run(byCluster)
		if a.err != nil && b.err != nil {
			return false
		}
		a.calls, b.calls = nil, nil
		if d := difference(b, a); d != "" {
			t.Fatalf("the cluster, and workers brought on one by one: %s\n%s", d, x.show(text))
		}
		return true
	})
	if want := trials(t, 1000) / 33; held < want {
		t.Errorf("requests were held back in %d trials, want at least %d", held, want)
	}
}

// byLazily counts in held the trials in which a request was held back.
func byLazily(held *int) maker {
	return func(r *run, j *journal) (driver, error) {
		c, err := newCluster(r)
		if err != nil {
			return nil, err
		}
		c.pools[0].Router = &holder{Router: c.pools[0].Router, held: held}
		return c.driveLazily, nil
	}
}

// holder records whether its router ever held a request back.
type holder struct {
	router.Router
	held *int
	seen bool
}

func (h *holder) Queued() int {
	n := h.Router.Queued()
	if n > 0 && !h.seen {
		h.seen = true
		*h.held++
	}
	return n
}
