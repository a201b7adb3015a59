package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/replay-llm/replay/internal/json"
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
		o, err := q.outcomeOf(ctx, key)
		if err != nil {
			return nil, err
		}
		outcomes[i] = plan.Outcome{Key: key, Report: o.report}
		if o.dead != nil {
			outcomes[i].Reason = o.dead.Reason
		} else if o.report == nil {
			outcomes[i].Reason = "not finished"
		}
	}
	return outcomes, nil
}

// outcome is what became of a cell. One without a report that is not dead either is
// still to be run.
type outcome struct {
	report rawJSON
	stored time.Time // when the report was
	dead   *Dead
}

func (q *Queue) outcomeOf(ctx context.Context, key string) (outcome, error) {
	dead, entry, err := getJSON[Dead](ctx, q.dead, key)
	if err != nil {
		return outcome{}, err
	}
	if entry != nil {
		return outcome{dead: &dead}, nil
	}
	r, entry, err := getJSON[Result](ctx, q.results, key)
	if err != nil || entry == nil {
		return outcome{}, err
	}
	return outcome{report: r.Report, stored: entry.Created()}, nil
}

// GivenUp is a cell that is dead.
type GivenUp struct {
	Cell int `json:"cell"`
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
		o, err := q.outcomeOf(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case o.report != nil:
			s.Done++
			if first.IsZero() || o.stored.Before(first) {
				first = o.stored
			}
			if o.stored.After(last) {
				last = o.stored
			}
		case o.dead != nil:
			s.Dead++
			s.GivenUp = append(s.GivenUp, GivenUp{cell, *o.dead})
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
		if sleepFor(ctx, pause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
