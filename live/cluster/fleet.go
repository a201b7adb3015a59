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

// Fleet is the worker processes that this process starts. Each ends in good order at the end of its standard
// input, so that it does not outlive its parent.
type Fleet struct {
	log   io.Writer
	procs []*process
	alive context.Context // ends with the reason when a worker ends unasked
	lose  context.CancelCauseFunc
}

// NewFleet returns one without workers. The standard error of workers goes to log, one write at a time; their
// standard output is discarded.
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
	asked   chan struct{} // closed to ask it to end
	done    chan struct{} // closed when it has ended
}

// Start starts a worker: a program with its arguments.
func (f *Fleet) Start(program string, args ...string) error {
	p := &process{command: exec.Command(program, args...), asked: make(chan struct{}), done: make(chan struct{})}
	p.command.Stderr = f.log
	p.command.WaitDelay = time.Second // another process may hold its output
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

// Err returns which worker has ended unasked, and how; nil if none has.
func (f *Fleet) Err() error { return context.Cause(f.alive) }

// ErrKilled is the error of workers that did not end in good order.
var ErrKilled = errors.New("worker processes had to be killed")

// Stop asks all workers to end and waits for them. Workers that are left when ctx ends are killed. It is called
// once.
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
			_ = p.command.Process.Kill() // it may be gone
			<-p.done
			killed++
		}
	}
	if killed > 0 {
		return fmt.Errorf("%w: %d of %d", ErrKilled, killed, len(f.procs))
	}
	return nil
}
