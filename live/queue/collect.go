package queue

import (
	"context"
	"errors"
	"fmt"
	"github.com/goccy/go-json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/replay-llm/replay/plan"
)

// Manifest returns the sweep of the given id.
func (q *Queue) Manifest(ctx context.Context, id string) (*Manifest, error) {
	text, err := q.files.GetBytes(ctx, manifestName(id))
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil, fmt.Errorf("sweep %s: not on this server, want one that was submitted there", id)
	} else if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, fmt.Errorf("sweep %s: %w", id, err)
	}
	return &m, nil
}

// Outcomes returns what became of the cells so far, in grid order.
func (q *Queue) Outcomes(ctx context.Context, m *Manifest) ([]plan.Outcome, error) {
	outcomes := make([]plan.Outcome, len(m.Keys))
	for i, key := range m.Keys {
		o, _, err := q.outcomeOf(ctx, key)
		if err != nil {
			return nil, err
		}
		outcomes[i] = o
	}
	return outcomes, nil
}

// unfinished is the reason of cells that are still to be run.
const unfinished = "not finished"

// outcomeOf returns what became of a cell, and when its result was stored.
func (q *Queue) outcomeOf(ctx context.Context, key string) (plan.Outcome, time.Time, error) {
	o := plan.Outcome{Key: key}
	entry, dead, err := getKey(ctx, q.dead, key)
	if err != nil {
		return o, time.Time{}, err
	}
	if dead {
		d, err := readDead(entry)
		o.Reason = d.Reason
		return o, time.Time{}, err
	}
	entry, done, err := getKey(ctx, q.results, key)
	if err != nil {
		return o, time.Time{}, err
	}
	if !done {
		o.Reason = unfinished
		return o, time.Time{}, nil
	}
	var r Result
	if err := json.Unmarshal(entry.Value(), &r); err != nil {
		return o, time.Time{}, fmt.Errorf("%s: %s: %w", resultBucket, key, err)
	}
	o.Report = r.Report
	return o, entry.Created(), nil
}

func readDead(entry jetstream.KeyValueEntry) (d Dead, err error) {
	if err = json.Unmarshal(entry.Value(), &d); err != nil {
		err = fmt.Errorf("%s: %s: %w", deadBucket, entry.Key(), err)
	}
	return d, err
}

// deadOf returns why a cell was given up.
func (q *Queue) deadOf(ctx context.Context, key string) (Dead, error) {
	entry, ok, err := getKey(ctx, q.dead, key)
	if err != nil || !ok {
		return Dead{}, err
	}
	return readDead(entry)
}

// GivenUp is a cell that is dead.
type GivenUp struct {
	Cell int
	Dead
}

// Status counts the cells of a sweep.
type Status struct {
	Cells   int
	Done    int
	Dead    int
	Running int
	Pending int
	GivenUp []GivenUp // the dead, in grid order
	// ETA is how long the rest takes at the pace of the results so far; negative
	// when there are fewer than two.
	ETA time.Duration
}

// Status returns how far a sweep is.
func (q *Queue) Status(ctx context.Context, m *Manifest) (*Status, error) {
	s := &Status{Cells: len(m.Keys), ETA: -1}
	var first, last time.Time
	for cell, key := range m.Keys {
		o, at, err := q.outcomeOf(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case o.Report != nil:
			s.Done++
			if first.IsZero() || at.Before(first) {
				first = at
			}
			if at.After(last) {
				last = at
			}
		case o.Reason != unfinished:
			d, err := q.deadOf(ctx, key)
			if err != nil {
				return nil, err
			}
			s.Dead++
			s.GivenUp = append(s.GivenUp, GivenUp{cell, d})
		}
	}
	left := s.Cells - s.Done - s.Dead
	info, err := q.messages.Info(ctx)
	if err != nil {
		return nil, err
	}
	s.Running = min(left, info.NumAckPending)
	s.Pending = left - s.Running
	if s.Done > 1 {
		s.ETA = last.Sub(first) / time.Duration(s.Done-1) * time.Duration(left)
	}
	return s, nil
}

// Left returns the number of the sweep's messages that are in the queue or being
// worked on.
func (q *Queue) Left(ctx context.Context, m *Manifest) (left int, err error) {
	err = retryRequest(ctx, func(ctx context.Context) error {
		info, err := q.stream.Info(ctx, jetstream.WithSubjectFilter(subjectRoot+"."+m.ID+".>"))
		if err != nil {
			return err
		}
		left = len(info.State.Subjects)
		return nil
	})
	return left, err
}

// Wait waits until no cell is left, and tells how many of the messages are.
func (q *Queue) Wait(ctx context.Context, m *Manifest, progress func(left int)) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		left, err := q.Left(ctx, m)
		if err != nil {
			return err
		}
		progress(left)
		if left == 0 {
			// Cells that another sweep had queued before have no message of this one.
			s, err := q.Status(ctx, m)
			if err != nil {
				return err
			}
			if s.Done+s.Dead == s.Cells {
				return nil
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
