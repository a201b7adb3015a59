package queue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/plan"
)

// Program is a command that runs cells: it reads a Request per line on its
// standard input, and writes a Reply per line. It ends when its input does. A
// cell that takes it down takes down nothing else.
type Program struct {
	Args    []string
	Timeout time.Duration // of one cell
}

// Request asks for the replay of a cell.
type Request struct {
	Settings []plan.Setting `json:"settings"`
	Sample   int            `json:"resample,omitempty"` // of the workload; 0: as it is
}

// Reply is a report, or why there is none.
type Reply struct {
	Report  rawJSON `json:"report,omitempty"`
	Refused string  `json:"refused,omitempty"` // why a second try would end the same way
	Memory  string  `json:"memory,omitempty"`  // why the process ends: it needs too much
}

// crashError is a process that ended in the middle of a cell, which may go
// better another time.
type crashError struct{ reason string }

func (e *crashError) Error() string { return e.reason }

// timeoutError is a cell that took too long, as it would again.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("took longer than %v", e.limit) }

// refusedError is what a process says of a cell that cannot be run.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return e.reason }

// child is a running process.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors tail
}

func (p *Program) startChild() (*child, error) {
	c := &child{cmd: exec.Command(p.Args[0], p.Args[1:]...)}
	c.cmd.Stderr = &c.errors
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = in, bufio.NewReader(out)
	return c, c.cmd.Start()
}

// runCell lets the process run a cell. After any error but a refusal the process is
// gone.
func (c *child) runCell(ctx context.Context, r Request, limit time.Duration) (rawJSON, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	ctx, release := context.WithTimeoutCause(ctx, limit, &timeoutError{limit})
	defer release()
	kept := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Kill() })
	_, err = c.in.Write(append(line, '\n'))
	var text []byte
	if err == nil {
		text, err = c.out.ReadBytes('\n')
	}
	switch {
	case !kept():
		c.killProcess()
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, c.crashCause()
	}
	return c.readReply(text)
}

func (c *child) readReply(text []byte) (rawJSON, error) {
	var r Reply
	if err := json.Unmarshal(text, &r); err != nil {
		c.killProcess()
		return nil, &crashError{fmt.Sprintf("answered %.60q, which is no reply", text)}
	}
	switch {
	case r.Memory != "":
		c.killProcess()
		return nil, &crashError{r.Memory}
	case r.Refused != "":
		return nil, &refusedError{r.Refused}
	}
	return r.Report, nil
}

// crashCause returns how the process ended.
func (c *child) crashCause() error {
	c.in.Close()
	err := c.cmd.Wait()
	state := "ended without an answer"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		state = exit.String()
	}
	if last := c.errors.lastLine(); last != "" {
		state += ": " + last
	}
	return &crashError{"crashed: " + state}
}

// killProcess ends the process at once.
func (c *child) killProcess() {
	_ = c.cmd.Process.Kill() // it may have ended by itself
	_ = c.cmd.Wait()         // that it was killed is known
}

// stopProcess ends an idle process.
func (c *child) stopProcess() {
	c.in.Close()
	_ = c.cmd.Wait() // nobody needs it any more
}

// tail keeps the end of what is written to it.
type tail struct {
	mutex sync.Mutex
	text  []byte
}

// tailBytes bounds it.
const tailBytes = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text) - tailBytes; n > 0 {
		t.text = t.text[n:]
	}
	return len(p), nil
}

// lastLine returns the line that says what went wrong: that of a panic, or the last one.
func (t *tail) lastLine() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	lines := bytes.Split(bytes.TrimSpace(t.text), []byte{'\n'})
	for _, line := range lines {
		if bytes.HasPrefix(line, []byte("panic:")) || bytes.HasPrefix(line, []byte("fatal error:")) {
			return string(line)
		}
	}
	return string(lines[len(lines)-1])
}
