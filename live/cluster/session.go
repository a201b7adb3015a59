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
	Workers drt.Name  // that do all of a request, or decode
	Prefill *drt.Name // nil: there are no prefill workers
	// Count and PrefillCount are how many workers there must be, at least 1.
	Count, PrefillCount int
	Routing             route.Options
	Fleet               *Fleet // that they belong to; nil: of another process
}

// Session is the workers that a replay asks.
type Session struct {
	pools   []*route.Pool
	engines engine.Target
	model   string
}

// Open waits until the workers are there, as long as ctx lasts and none of the
// fleet's ends.
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
	look := context.WithoutCancel(ctx) // it is bounded; too few workers are the error when ctx ends
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

// withCause is err, or why ctx was ended if it was.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Close stops reading the workers.
func (s *Session) Close() {
	for _, p := range s.pools {
		p.Close()
	}
}
