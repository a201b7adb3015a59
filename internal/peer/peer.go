// Package peer communicates with a program of the user: a child process with its standard streams, or a server with a
// socket. The package sends one line and reads one line as the answer.
//
// If an answer takes too long or the program ends, Ask returns an error. On Unix no wait for the streams exceeds the
// timeout, even if a process that survives the kill keeps the streams open.
//
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

// Options configure how a program is started and asked.
type Options struct {
	Name    string        // name of the program in errors, printed before Command
	Command string        // a shell command, or unix:PATH or tcp:HOST:PORT of a server
	Timeout time.Duration // limit for an answer and for the end of the program; > 0
	Stderr  io.Writer     // destination of the program's standard error; nil: discarded
}

// Peer is a running program that answers lines. Only one goroutine at a time may use a Peer.
//
// A background goroutine stops the program if an answer takes too long.
type Peer struct {
	Options
	ctx     context.Context
	release func() bool // stops watching ctx
	in      io.WriteCloser
	out     io.ReadCloser
	answers *bufio.Reader
	stop    func()    // ends the program and unblocks all waits with an error
	cmd     *exec.Cmd // nil for a server, and for a program that has ended
	asked   int       // number of lines sent
	long    []byte    // an answer that is longer than the read buffer

	waits   atomic.Int64 // number of the line that waits for its answer; 0: none
	expired atomic.Bool
	done    chan struct{} // closed at the end
}

// maxAnswer is the maximum size of an answer, in bytes. The limit detects programs that never end a line.
const maxAnswer = 4 << 20

// Start starts a program or connects to a server. Ask fails after ctx is done.
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

// watch stops the program if an answer takes longer than the timeout.
func (p *Peer) watch() {
	const looks = 10 // number of checks per timeout
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

// Ask sends a line that ends in a line feed. Ask returns the answer without its line feed, which is valid until the
// next call.
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

// errTwice is the error of a program that prints two lines for one question.
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

// readLong reads the remainder of a line. begin is the part of the line that was already read.
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

// Refuse returns the error of an invalid answer to the latest line.
func (p *Peer) Refuse(answer []byte, want string) error {
	return fmt.Errorf("%s: the answer to line %d is %q, must be %s", p.title(), p.asked, excerpt.Cut(answer), want)
}

// explain returns the error of a question without an answer.
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
		if err = fmt.Errorf("%s, must be an answer to line %d", end, p.asked); p.expired.Load() { // the program closed its streams but did not end
			err = p.errLate()
		}
	}
	return fmt.Errorf("%s: %w", p.title(), err)
}

// errLate returns the error of an answer that takes too long.
func (p *Peer) errLate() error {
	return fmt.Errorf("no answer to line %d within %v", p.asked, p.Timeout)
}

// describeEnd describes how the program ended.
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

// wait waits for the end of a child process. wait returns immediately for a server.
func (p *Peer) wait() error {
	if p.cmd == nil {
		return nil
	}
	err := p.cmd.Wait()
	p.cmd = nil
	return err
}

// wasKilled reports whether a signal ended the program.
func wasKilled(ended error) bool {
	var exit *exec.ExitError
	return errors.As(ended, &exit) && !exit.Exited()
}

// Kill ends the program immediately.
func (p *Peer) Kill() {
	close(p.done)
	p.release()
	p.stop()
	p.in.Close()
	p.out.Close()
	_ = p.wait() // the error only reports the kill
}

// Close closes the input of the program and waits for its end, at most for the timeout.
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
