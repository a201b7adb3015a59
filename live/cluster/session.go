package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/scheduler"
)

// Options set the workers of a session.
type Options struct {
	Workers drt.Name  // workers for complete requests, or for decode
	Prefill *drt.Name // nil: no prefill workers
	// Count and PrefillCount are the required numbers of workers, at least 1.
	Count, PrefillCount int
	Routing             route.Options
	Fleet               *Fleet // fleet of the workers; nil: workers of another process
}

// Session is the connection to the workers of a replay.
type Session struct {
	pools   []*route.Pool
	engines engine.Target
	model   string
}

// Open waits until all workers are available. Open fails when ctx ends or when a worker of the fleet ends.
func Open(ctx context.Context, rt *drt.Runtime, o Options) (_ *Session, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if o.Fleet != nil {
		defer context.AfterFunc(o.Fleet.alive, func() { end(o.Fleet.Err()) })()
	}
	s := &Session{}
	defer func() {
		if err != nil {
			s.Close()
			err = withCause(ctx, err)
		}
	}()
	look := context.WithoutCancel(ctx) // its calls have their own timeouts; if ctx ends, the error is the number of workers
	cards, err := rt.Cards(look)
	if err != nil {
		return nil, err
	}
	stage := scheduler.Aggregated
	if o.Prefill != nil {
		stage = scheduler.Decode
	}
	open := func(name drt.Name, stage scheduler.Role, count int) (*route.Pool, error) {
		routing := o.Routing
		routing.Role = stage
		p, err := route.Open(look, rt, cards, name, routing)
		if err != nil {
			return nil, err
		}
		s.pools = append(s.pools, p)
		return p, p.Await(ctx, max(1, count))
	}
	workers, err := open(o.Workers, stage, o.Count)
	if err != nil {
		return nil, err
	}
	s.engines = workers
	if o.Prefill != nil {
		prefill, err := open(*o.Prefill, scheduler.Prefill, o.PrefillCount)
		if err != nil {
			return nil, err
		}
		s.engines = &route.Pair{Prefill: prefill, Decode: workers}
	}
	if all := workers.Workers(); len(all) > 0 {
		card, _ := workers.Card(all[0])
		s.model = card.Name
	}
	return s, nil
}

// withCause adds the cause of the end of ctx to err.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Close stops following the workers.
func (s *Session) Close() {
	for _, p := range s.pools {
		p.Close()
	}
}
