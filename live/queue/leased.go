package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/plan"
)

// takeMessage sees to one message. An error leaves it to be delivered again.
func (s *slot) takeMessage(ctx context.Context, msg jetstream.Msg) error {
	var t plan.Task
	if err := json.Unmarshal(msg.Data(), &t); err != nil {
		return errors.Join(fmt.Errorf("%s: not a cell: %w", msg.Subject(), err), msg.Term())
	}
	if t.Version != s.Version {
		return s.leaveMessage(ctx, msg)
	}
	key := t.Key()
	for _, bucket := range []jetstream.KeyValue{s.Queue.results, s.Queue.dead} {
		if _, settled, err := getJSON[rawJSON](ctx, bucket, key); err != nil {
			return err
		} else if settled != nil {
			return s.acknowledgeMessage(ctx, msg)
		}
	}
	defer s.Queue.holdLease(msg)()
	started := time.Now()
	report, err := s.replayCell(ctx, &t)
	if err != nil {
		return s.failCell(ctx, msg, key, err)
	}
	r := Result{Report: report, Version: s.Version, Host: s.host, WallMS: float64(time.Since(started)) / 1e6}
	if err := s.Queue.storeResult(ctx, key, &r); err != nil {
		return errors.Join(err, msg.Nak())
	}
	return s.acknowledgeMessage(ctx, msg)
}

// leaveMessage gives a message back for a program of its version. While others wait
// behind it, it stays away for a while, longer each time, so that the slot comes
// to what it can run. Otherwise it is offered again almost at once, and it is
// the slot that stays away, so that somebody else gets it.
func (s *slot) leaveMessage(ctx context.Context, msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return err
	}
	wait := min(wrongWait*time.Duration(meta.NumDelivered), mostWrong)
	if meta.NumPending > 0 {
		return msg.NakWithDelay(wait)
	}
	err = msg.NakWithDelay(wrongNap)
	sleepFor(ctx, wait)
	return err
}

// acknowledgeMessage takes a message off the queue, and waits until it is.
func (s *slot) acknowledgeMessage(ctx context.Context, msg jetstream.Msg) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), attemptLimit)
	defer cancel()
	return msg.DoubleAck(ctx)
}

// holdLease renews the lease on a message until it is called off.
func (q *Queue) holdLease(msg jetstream.Msg) (release func()) {
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(q.lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				// Without it the cell goes to another worker too, which is no harm.
				_ = msg.InProgress()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// replayCell has a cell run, with the files it names taken from the cache.
func (s *slot) replayCell(ctx context.Context, t *plan.Task) (rawJSON, error) {
	settings, err := s.fillSettings(ctx, t)
	if err != nil {
		return nil, err
	}
	if s.child == nil {
		if s.child, err = s.Program.startChild(); err != nil {
			s.child = nil
			return nil, err
		}
	}
	report, err := s.child.runCell(ctx, Request{Settings: settings, Sample: t.Sample}, s.Program.Timeout)
	if err != nil && !errors.As(err, new(*refusedError)) {
		s.child = nil
	}
	return report, err
}

// fillSettings returns the settings of a task with the paths of its files.
func (s *slot) fillSettings(ctx context.Context, t *plan.Task) ([]plan.Setting, error) {
	settings := append([]plan.Setting(nil), t.Settings...)
	for _, f := range t.Files {
		path, err := s.Cache.fetchPath(ctx, s.Queue, f.SHA256, s.Notify)
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			return nil, &refusedError{fmt.Sprintf("%s: file %s is not on the server", f.Setting, f.SHA256)}
		} else if err != nil {
			return nil, err
		}
		for i := range settings {
			if settings[i].Name == f.Setting {
				settings[i].Value += path // after the @ of a file of JSON
			}
		}
	}
	return settings, nil
}

// failCell decides what becomes of a cell that could not be run.
func (s *slot) failCell(ctx context.Context, msg jetstream.Msg, key string, err error) error {
	if ctx.Err() != nil {
		return msg.Nak() // we end, not the cell
	}
	if errors.As(err, new(*refusedError)) || errors.As(err, new(*timeoutError)) {
		return s.giveUp(ctx, msg, key, Dead{Reason: err.Error(), Tries: 1})
	}
	if !errors.As(err, new(*crashError)) {
		return errors.Join(err, msg.NakWithDelay(wrongWait))
	}
	tries, counted := s.Queue.countTry(ctx, key)
	if counted != nil {
		return errors.Join(counted, msg.Nak())
	}
	s.Notify(fmt.Sprintf("cell %s, try %d: %v", cellNumber(msg), tries, err))
	if tries < mostTries {
		return msg.Nak()
	}
	return s.giveUp(ctx, msg, key, Dead{Reason: err.Error(), Tries: tries})
}

// cellNumber returns the number of a message's cell.
func cellNumber(msg jetstream.Msg) string {
	subject := msg.Subject()
	return subject[strings.LastIndexByte(subject, '.')+1:]
}

// countTry counts another try of a cell.
func (q *Queue) countTry(ctx context.Context, key string) (int, error) {
	tries, _, err := getJSON[int](ctx, q.tries, key)
	if err != nil {
		return 0, err
	}
	return tries + 1, putJSON(ctx, q.tries, key, tries+1)
}

// giveUp lists a cell as dead.
func (s *slot) giveUp(ctx context.Context, msg jetstream.Msg, key string, d Dead) error {
	if err := putJSON(ctx, s.Queue.dead, key, d); err != nil {
		return errors.Join(err, msg.Nak())
	}
	return s.acknowledgeMessage(ctx, msg)
}

// storeResult stores a result. When there is one, as after a lease that ran out, both
// must say the same.
func (q *Queue) storeResult(ctx context.Context, key string, r *Result) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	err = retryRequest(ctx, func(ctx context.Context) error {
		_, err := q.results.Create(ctx, key, text)
		return err
	})
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return err
	}
	other, entry, err := getJSON[Result](ctx, q.results, key)
	if err != nil || entry == nil || bytes.Equal(entry.Value(), text) {
		return err
	}
	if same, err := plan.SameReport(r.Report, other.Report); err != nil || same {
		return err
	}
	return putJSON(ctx, q.dead, key, Dead{Reason: fmt.Sprintf("nondeterministic: %s and %s got different reports", other.Host, r.Host), Tries: 2})
}
