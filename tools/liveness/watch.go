package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/sim"
)

// grace is the additional time in which a run must react to its cancellation.
const grace = 2 * time.Second

// watchTrial runs x with a time limit.
func watchTrial(x *trial, patience time.Duration) ending {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	done := make(chan ending, 1)
	started := time.Now()
	go func() { done <- x.run(ctx) }()
	select {
	case e := <-done:
		e.took = time.Since(started)
		if e.kind <= refused && e.took > patience || ctx.Err() != nil && e.kind == wrong {
			e.kind = late
		}
		return e
	case <-time.After(patience + grace):
		return ending{trial: x, kind: endless, took: time.Since(started), why: "it cannot be stopped"}
	}
}

// run runs x to its end and catches panics.
func (x *trial) run(ctx context.Context) (e ending) {
	e.trial = x
	defer func() {
		if p := recover(); p != nil {
			e.kind, e.why = panicked, fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	w, err := x.spec.Open(ctx, x.streams())
	if err != nil {
		e.judgeResult(nil, nil, err)
		return e
	}
	var r *harness.Result
	if x.steps > 0 {
		r, err = x.runStepwise(ctx)
	} else {
		r, err = x.spec.RunOn(ctx, w, replay.Streams{})
	}
	e.judgeResult(w, r, err)
	return e
}

func (x *trial) streams() replay.Streams { return replay.Streams{Stdin: strings.NewReader(x.Trace)} }

// runStepwise replays x like a planner, with x.steps steps. Then the replay runs to its end.
func (x *trial) runStepwise(ctx context.Context) (*harness.Result, error) {
	s, err := x.spec.Steps(ctx, x.streams())
	if err != nil {
		return nil, err
	}
	for i := range x.steps {
		if _, err := s.AdvanceTo(ctx, sim.Time(20*i)); err != nil {
			return nil, err
		}
		if err := s.Scale(1+(i+1)%2, 1+i%3); err != nil {
			return nil, err
		}
		s.Traffic()
	}
	const forever = 1e15
	if _, err := s.AdvanceTo(ctx, forever); err != nil {
		return nil, err
	}
	return s.Finish()
}
