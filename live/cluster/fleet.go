package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"
)

// Fleet is the worker processes that this process has started. Each worker ends when its standard input ends, so that
// it does not outlive its parent.
type Fleet struct {
	log   io.Writer
	procs []*process
	alive context.Context // ends with the reason when a worker ends unexpectedly
	lose  context.CancelCauseFunc
}

// NewFleet returns a fleet without workers. The standard error of workers is written to log, one write at a time. The
// standard output of workers is discarded.
func NewFleet(log io.Writer) *Fleet {
	f := &Fleet{log: &shared{w: log}}
	f.alive, f.lose = context.WithCancelCause(context.Background())
	return f
}

// shared is a writer for several goroutines.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// process is a worker of a fleet.
type process struct {
	command *exec.Cmd
	input   io.Closer
	asked   chan struct{} // closed when the worker is asked to end
	done    chan struct{} // closed when the worker has ended
}

// Start starts a worker: a program with its arguments.
func (f *Fleet) Start(program string, args ...string) error {
	p := &process{command: exec.Command(program, args...), asked: make(chan struct{}), done: make(chan struct{})}
	p.command.Stderr = f.log
	p.command.WaitDelay = time.Second // another process may keep its output open
	var err error
	if p.input, err = p.command.StdinPipe(); err != nil {
		return err
	}
	if err := p.command.Start(); err != nil {
		return err
	}
	number := len(f.procs)
	f.procs = append(f.procs, p)
	go func() {
		defer close(p.done)
		err := p.command.Wait()
		select {
		case <-p.asked:
			return
		default:
		}
		if err == nil {
			f.lose(fmt.Errorf("worker process %d ended by itself", number))
		} else {
			f.lose(fmt.Errorf("worker process %d: %w", number, err))
		}
	}()
	return nil
}

// Err returns an error if a worker has ended unexpectedly.
func (f *Fleet) Err() error { return context.Cause(f.alive) }

// ErrKilled is the error if workers did not end in time.
var ErrKilled = errors.New("worker processes had to be killed")

// Stop asks all workers to end and waits for them. When ctx ends, Stop kills the remaining workers. Stop may be
// called once.
func (f *Fleet) Stop(ctx context.Context) error {
	for _, p := range f.procs {
		close(p.asked)
		p.input.Close()
	}
	killed := 0
	for _, p := range f.procs {
		select {
		case <-p.done:
		case <-ctx.Done():
			_ = p.command.Process.Kill() // the process may have ended
			<-p.done
			killed++
		}
	}
	if killed > 0 {
		return fmt.Errorf("%w: %d of %d", ErrKilled, killed, len(f.procs))
	}
	return nil
}
