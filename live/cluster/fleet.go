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

// Command is a program that serves as a worker: it ends in good order at the end
// of its standard input, so that it does not outlive who started it.
type Command struct {
	Path string
	Args []string
	Env  []string // nil: that of this process
}

// Fleet is worker processes of one's own.
type Fleet struct {
	out, log io.Writer // get what they say

	mu    sync.Mutex
	procs []*Process
	ended chan struct{} // closed when the first of them has ended unasked
}

// NewFleet is one without workers. What workers say on standard output goes to out,
// what they say on standard error to log; each is written to by one goroutine at
// a time.
func NewFleet(out, log io.Writer) *Fleet {
	return &Fleet{out: &shared{w: out}, log: &shared{w: log}, ended: make(chan struct{})}
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

// Process is a worker of a fleet.
type Process struct {
	fleet   *Fleet
	command *exec.Cmd
	input   io.Closer
	done    chan struct{} // closed when it has ended

	mu    sync.Mutex
	asked bool // it was told to end
	err   error
}

// Start starts a worker.
func (f *Fleet) Start(c Command) (*Process, error) {
	p := &Process{fleet: f, command: exec.Command(c.Path, c.Args...), done: make(chan struct{})}
	p.command.Env, p.command.Stdout, p.command.Stderr = c.Env, f.out, f.log
	p.command.WaitDelay = time.Second // somebody else may hold its output
	var err error
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.procs = append(f.procs, p)
	f.mu.Unlock()
	go p.awaitEnd()
	return p, nil
}

// awaitEnd notes the end of the process.
func (p *Process) awaitEnd() {
	err := p.command.Wait()
	p.mu.Lock()
	p.err = err
	asked := p.asked
	p.mu.Unlock()
	close(p.done)
	if !asked {
		p.fleet.markLost()
	}
}

// markLost notes that a worker has ended unasked.
func (f *Fleet) markLost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.ended:
	default:
		close(f.ended)
	}
}

// Lost is closed when a worker has ended that was not told to.
func (f *Fleet) Lost() <-chan struct{} { return f.ended }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended: nil for exit code 0, and before its end.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// askToEnd asks the process to end in good order.
func (p *Process) askToEnd() {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	p.input.Close()
}

// Kill ends the process at once, as a crash would, and waits until it is gone.
func (p *Process) Kill() {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	_ = p.command.Process.Kill() // it may be gone
	<-p.done
	p.input.Close()
}

// Err returns which worker has ended unasked, and how; nil if none has.
func (f *Fleet) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range f.procs {
		p.mu.Lock()
		asked, err := p.asked, p.err
		p.mu.Unlock()
		select {
		case <-p.done:
		default:
			continue
		}
		switch {
		case asked:
		case err == nil:
			return fmt.Errorf("worker process %d ended by itself", i)
		default:
			return fmt.Errorf("worker process %d: %w", i, err)
		}
	}
	return nil
}

// ErrKilled is the error of workers that did not end in good order.
var ErrKilled = errors.New("worker processes had to be killed")

// Stop asks all workers to end and waits for them; those that are left when ctx
// ends are killed.
func (f *Fleet) Stop(ctx context.Context) error {
	f.mu.Lock()
	procs := f.procs
	f.mu.Unlock()
	for _, p := range procs {
		p.askToEnd()
	}
	killed := 0
	for _, p := range procs {
		select {
		case <-p.done:
		case <-ctx.Done():
			p.Kill()
			killed++
		}
	}
	if killed > 0 {
		return fmt.Errorf("%w: %d of %d", ErrKilled, killed, len(procs))
	}
	return nil
}
