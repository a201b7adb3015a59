package queue

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Worker takes cells from the queue and has them run.
type Worker struct {
	Queue   *Queue
	Version string // of the program; cells of others are left to others
	Slots   int    // cells at once, at least 1
	Program Program
	Cache   *Cache
	// Drain ends the worker when the queue is empty.
	Drain bool
	// Notify is told what people may want to know.
	Notify func(text string)
}

const (
	fetchWait = 2 * time.Second        // that a request for a cell stays open
	fetchNap  = time.Second            // after a request that failed
	drainLook = 100 * time.Millisecond // between two looks at whether the queue is empty
	wrongWait = time.Second            // until a cell of another version is offered again, times the tries
	mostWrong = 5 * time.Second        // the longest such wait
	wrongNap  = 100 * time.Millisecond // that wait when the slot stays away
	mostTries = 5                      // of a cell that takes its process down
)

// Run works until ctx ends, or with Drain until nothing is left. Cells that are
// being run when ctx ends go back to the queue.
func (w *Worker) Run(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	if w.Drain {
		working, stop := context.WithCancel(ctx)
		defer stop()
		go w.untilEmpty(working, stop)
		ctx = working
	}
	var wait sync.WaitGroup
	for range w.Slots {
		wait.Go(func() {
			s := slot{Worker: w, host: host}
			s.runCells(ctx)
			if s.child != nil {
				s.child.stopProcess()
			}
		})
	}
	wait.Wait()
	return nil
}

// untilEmpty stops the worker when no message is left.
func (w *Worker) untilEmpty(ctx context.Context, stop func()) {
	for ctx.Err() == nil {
		if empty, err := w.Queue.isEmpty(ctx); err == nil && empty {
			stop()
		}
		sleepFor(ctx, drainLook)
	}
}

// slot runs one cell after another, in a process of its own.
type slot struct {
	*Worker
	host  string
	child *child // nil until a cell needs it, and after a crash
}

func (s *slot) runCells(ctx context.Context) {
	for ctx.Err() == nil {
		msg, err := s.Queue.nextMessage(ctx)
		switch {
		case ctx.Err() != nil && msg == nil:
			return
		case err != nil:
			sleepFor(ctx, fetchNap)
		case msg != nil:
			if err := s.takeMessage(ctx, msg); err != nil && ctx.Err() == nil {
				s.Notify(err.Error())
			}
		}
	}
}

// sleepFor waits for d, or the end of ctx.
func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// nextMessage returns the next message, nil when there is none for a while.
func (q *Queue) nextMessage(ctx context.Context) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
	msg, err := q.messages.Next(jetstream.FetchContext(ctx))
	for _, none := range []error{context.DeadlineExceeded, jetstream.ErrNoMessages, nats.ErrTimeout} {
		if errors.Is(err, none) {
			return nil, nil
		}
	}
	return msg, err
}

// isEmpty reports whether no message is left, not even one that is being worked on.
func (q *Queue) isEmpty(ctx context.Context) (empty bool, err error) {
	err = retryRequest(ctx, func(ctx context.Context) error {
		info, err := q.stream.Info(ctx)
		if err == nil {
			empty = info.State.Msgs == 0
		}
		return err
	})
	return empty, err
}
