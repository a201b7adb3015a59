package engine

import (
	"context"
	"iter"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
)

// Local serves an adapter to callers in the same process, and counts what the
// endpoint of a worker counts, but for bytes.
type Local struct {
	adapter *Adapter
	metrics drt.EndpointMetrics
}

// NewLocal serves a, counted by m.
func NewLocal(a *Adapter, m drt.EndpointMetrics) *Local {
	return &Local{a, m}
}

// Generate is Adapter.Generate. A request that is stopped, killed or left before
// its terminal counts as cancelled, once. One whose sequence is never ranged over
// is counted as begun alone.
func (l *Local) Generate(ctx context.Context, rc cancel.Context, rq *Request, headers map[string]string) (iter.Seq2[*Chunk, error], error) {
	began := time.Now()
	l.metrics.Received(0, 0)
	chunks, err := l.adapter.Generate(ctx, rc, rq, headers)
	if err != nil {
		l.metrics.Failed("generate")
		return nil, err
	}
	return func(yield func(*Chunk, error) bool) {
		l.metrics.Started()
		ended, first := false, true
		defer func() {
			if !ended {
				l.metrics.Cancelled()
			}
			l.metrics.Finished(time.Since(began))
		}()
		for c, err := range chunks {
			if first {
				first = false
				l.metrics.First(time.Since(began))
			}
			if terminal(c, err) {
				ended = true
				if rc.IsStopped() {
					l.metrics.Cancelled()
				}
			}
			if !yield(c, err) {
				return
			}
		}
	}, nil
}
