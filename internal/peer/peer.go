// Package peer asks a program of the user's, line by line: a child process over its standard streams, or a server
// over a socket. A line out, a line back.
//
// An answer that takes too long is an error, and so is that of a program that ended. No wait for
// the streams is longer than the timeout on Unix, even if a process that the kill does not reach keeps them open.
// Read peer.go, then start.go and pipe_unix.go.
package peer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
)

// Options are what a program is asked by.
type Options struct {
	Name    string        // the name of the program in errors, before its Command
	Command string        // a line for the shell; or unix:PATH or tcp:HOST:PORT of a server that listens
	Timeout time.Duration // for an answer, and for an end, > 0
	Stderr  io.Writer     // where the program complains; nil: nowhere
}

// Peer is a program that answers. It is asked by one goroutine at a time.
//
// A goroutine checks at intervals whether an answer takes too long, and then stops the program.
type Peer struct {
	Options
	ctx     context.Context
	release func() bool // of what watches ctx
	in      io.WriteCloser
	out     io.ReadCloser
	answers *bufio.Reader
	stop    func()    // ends the program, and all waits for it with an error
	cmd     *exec.Cmd // nil of a server, and of a program that has ended
	asked   int       // lines
	long    []byte    // an answer that is longer than a buffer

	waits   atomic.Int64 // for the answer to this line; 0: for none
	expired atomic.Bool
	done    chan struct{} // closed with the end
}

// maxAnswer bounds a line, so that a program that never ends one is found out.
const maxAnswer = 4 << 20

// Start starts a program, or connects to a server. Once ctx is done no question is answered any more.
func Start(ctx context.Context, o Options) (*Peer, error) {
	p := &Peer{Options: o, ctx: ctx, done: make(chan struct{})}
	if err := p.connect(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.title(), err)
	}
	p.answers = bufio.NewReaderSize(p.out, 64<<10)
	p.release = context.AfterFunc(ctx, p.stop)
	go p.watch()
	return p, nil
}

// title returns the name of the program in errors.
func (p *Peer) title() string { return p.Name + " " + excerpt.Cut(p.Command) }

// watch stops the program when an answer takes longer than it may.
func (p *Peer) watch() {
	const looks = 10 // in the time of an answer
	tick := time.NewTicker(max(p.Timeout/looks, time.Millisecond))
	defer tick.Stop()
	line, seen := int64(0), 0
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
		}
		if now := p.waits.Load(); now != line {
			line, seen = now, 0
		}
		if seen++; line > 0 && seen > looks {
			p.expired.Store(true)
			p.stop()
			return
		}
	}
}

// Ask sends a line, which ends in a line feed, and returns the answer without its own, valid until the next call.
func (p *Peer) Ask(line []byte) ([]byte, error) {
	p.asked++
	p.waits.Store(int64(p.asked))
	answer, err := p.exchange(line)
	if err != nil {
		return nil, p.explain(err)
	}
	p.waits.Store(0)
	return answer, nil
}

// errTwice is a line without a question.
var errTwice = errors.New("two lines in answer to one")

func (p *Peer) exchange(line []byte) ([]byte, error) {
	switch {
	case p.ctx.Err() != nil:
		return nil, p.ctx.Err()
	case p.answers.Buffered() > 0:
		p.asked--
		return nil, errTwice
	}
	if _, err := p.in.Write(line); err != nil {
		return nil, err
	}
	answer, err := p.answers.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		answer, err = p.readLong(answer)
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSpace(answer), nil
}

// readLong reads the rest of a line of which the beginning is there.
func (p *Peer) readLong(begin []byte) ([]byte, error) {
	p.long = append(p.long[:0], begin...)
	for {
		more, err := p.answers.ReadSlice('\n')
		p.long = append(p.long, more...)
		switch {
		case len(p.long) > maxAnswer:
			return nil, fmt.Errorf("an answer of more than %d bytes", maxAnswer)
		case !errors.Is(err, bufio.ErrBufferFull):
			return p.long, err
		}
	}
}

// Refuse returns the error of an answer to the latest line that makes no sense.
func (p *Peer) Refuse(answer []byte, want string) error {
	return fmt.Errorf("%s: the answer to line %d is %q, must be %s", p.title(), p.asked, excerpt.Cut(answer), want)
}

// explain returns the error of a question that has no answer.
func (p *Peer) explain(err error) error {
	switch {
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case errors.Is(err, errTwice):
		err = fmt.Errorf("%w, line %d: must be one; print other text on standard error", err, p.asked)
	case p.expired.Load():
		err = p.errLate()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		end := p.describeEnd()
		if err = fmt.Errorf("%s, must be an answer to line %d", end, p.asked); p.expired.Load() { // it closed its streams and continued
			err = p.errLate()
		}
	}
	return fmt.Errorf("%s: %w", p.title(), err)
}

// errLate returns the error of an answer that takes too long.
func (p *Peer) errLate() error {
	return fmt.Errorf("no answer to line %d within %v", p.asked, p.Timeout)
}

// describeEnd returns how the program ended.
func (p *Peer) describeEnd() string {
	if p.cmd == nil {
		return "the connection was closed"
	}
	err := p.wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "the program ended"
	case errors.As(err, &exit) && exit.ExitCode() == 127:
		return "exit status 127 (is there such a program?)"
	}
	return err.Error()
}

// wait waits for the end of the program, if it is one.
func (p *Peer) wait() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Wait()
	p.cmd = nil
	return err
}

// wasKilled reports whether a program did not end alone.
func wasKilled(ended error) bool {
	var exit *exec.ExitError
	return errors.As(ended, &exit) && !exit.Exited()
}

// Kill ends the program at once.
func (p *Peer) Kill() {
	close(p.done)
	p.release()
	p.stop()
	p.in.Close()
	p.out.Close()
	_ = p.wait() // that it was killed is known
}

// Close ends the program, which has no more to read and nothing more to answer, and has as long for that as for an
// answer.
func (p *Peer) Close() error {
	defer close(p.done)
	defer p.release()
	defer p.out.Close()
	p.waits.Store(int64(p.asked) + 1)
	if err := p.closeIn(); err != nil {
		return fmt.Errorf("%s: %w", p.title(), err)
	}
	_, err := p.answers.ReadByte()
	server := p.cmd == nil
	switch ended := p.wait(); {
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case err == nil:
		return p.explain(errTwice)
	case p.expired.Load() && !server && !wasKilled(ended):
		return fmt.Errorf("%s: a process that it started keeps standard output open %v after the end of its input, must end or close it", p.title(), p.Timeout)
	case p.expired.Load():
		return fmt.Errorf("%s: it runs for %v after the end of its input, must end there", p.title(), p.Timeout)
	case ended != nil:
		return fmt.Errorf("%s: %w after its last answer, must end with its input", p.title(), ended)
	}
	return nil
}
