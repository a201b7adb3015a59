package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// loop is the Python program that runs the reference.
//
//go:embed loop.py
var loop string

// memoryKB is the memory limit of the reference, since some of its runs do not end.
const memoryKB = 4 << 20

// errEndless reports a run of the reference that did not end in time.
var errEndless = errors.New("the reference did not end")

// process is a running process of the reference.
type process struct {
	python   string
	patience time.Duration

	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan answer
}

// answer is the end of a run of the reference.
type answer struct {
	Code int    `json:"code"`
	Said string `json:"said"`
}

// run runs the reference with a list of arguments or a schedule. The error is errEndless if the run did not end in
// time or the process died.
func (p *process) run(ctx context.Context, what any) (answer, error) {
	if p.cmd == nil {
		if err := p.start(); err != nil {
			return answer{}, err
		}
	}
	text, err := json.Marshal(what)
	if err != nil {
		return answer{}, err
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", text); err != nil {
		p.stop()
		return answer{}, err
	}
	select {
	case a, ok := <-p.replies:
		if !ok {
			p.stop()
			return answer{}, fmt.Errorf("%w: its process ended", errEndless)
		}
		return a, nil
	case <-time.After(p.patience):
		p.stop()
		return answer{}, fmt.Errorf("%w in %v", errEndless, p.patience)
	case <-ctx.Done():
		p.stop()
		return answer{}, ctx.Err()
	}
}

func (p *process) start() error {
	p.cmd = exec.Command("bash", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" -u -c "$1"`, memoryKB), p.python, loop)
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("start the reference: %w", err)
	}
	p.in, p.replies = in, make(chan answer, 1)
	go func(replies chan<- answer) {
		defer close(replies)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var a answer
			if json.Unmarshal(lines.Bytes(), &a) == nil {
				replies <- a
			}
		}
	}(p.replies)
	return nil
}

func (p *process) stop() {
	if p.cmd == nil {
		return
	}
	p.in.Close()
	_ = p.cmd.Process.Kill() // the process may have ended already
	_ = p.cmd.Wait()
	for range p.replies {
	}
	p.cmd = nil
}
