// Package sessions implements the command session. The package reads command lines from standard input and runs them
// in one process, so that a trace is read only once. replay.Session of the Python package uses this command.
package sessions

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/json"
)

const mostBytes = 16 << 20 // maximum size of a message

// request is a command line, or a request to cancel the current command.
type request struct {
	Args   []string `json:"args"`
	Cancel bool     `json:"cancel"`

	ctx    context.Context
	cancel context.CancelCauseFunc
}

// answer is the output and the exit code of a command.
type answer struct {
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// NewSessionCommand returns the command session.
func NewSessionCommand(s cli.Streams) *cobra.Command {
	return cli.BindGroups(&cobra.Command{
		Use: "session", Short: "Carry out command lines of standard input", Hidden: true, Args: cli.NoArgs,
		Long: `Read command lines from standard input and answer each on standard output, until
standard input ends. A message is its length, four bytes with the highest first,
and JSON:

  {"args": ["trace", "requests.jsonl", "--workers=8"]}
  {"exit_code": 0, "stdout": "...", "stderr": "..."}

{"cancel": true} ends the command that runs, with exit code 130. A trace is read
once, unless its file changes.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cli.ManyReplays()
			return (&session{in: s.In, out: s.Out, program: s.Program}).serve(runs.WithWorkloads(cmd.Context(), new(runs.Workloads)))
		},
	})
}

// session answers requests in order.
type session struct {
	in      io.Reader
	out     io.Writer
	program cli.Program
}

// serve answers requests until the input ends. The end of the input also cancels the current command.
func (s *session) serve(ctx context.Context) error {
	requests, ended := make(chan *request), make(chan error, 1)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		ended <- s.readAll(ctx, requests)
		stop(cli.NewInterrupt())
	}()
	for {
		select {
		case r := <-requests:
			if err := s.answer(r); err != nil {
				return err
			}
		case err := <-ended:
			return err
		}
	}
}

// readAll reads requests until the input ends. A message with cancel cancels the latest request.
func (s *session) readAll(ctx context.Context, requests chan<- *request) error {
	latest := &request{cancel: func(error) {}}
	for {
		r, err := readRequest(s.in)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case r.Cancel:
			latest.cancel(cli.NewInterrupt())
			continue
		}
		latest = r
		r.ctx, r.cancel = context.WithCancelCause(ctx)
		select {
		case requests <- r:
		case <-ctx.Done():
			return nil
		}
	}
}

// answer runs a command line and writes its answer.
func (s *session) answer(r *request) error {
	defer r.cancel(nil)
	var stdout, stderr printed
	a := answer{ExitCode: cli.ExitUsage}
	if commands := []string{"trace", "concurrency", "sweep", "plan"}; len(r.Args) == 0 || !slices.Contains(commands, r.Args[0]) {
		fmt.Fprintf(&stderr, "replay: session: args must begin with one of %s\n", strings.Join(commands, ", "))
	} else {
		a.ExitCode = s.program.RunIn(r.ctx, cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Args: r.Args})
	}
	a.Stdout, a.Stderr = stdout.end(), stderr.end()
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = s.out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// printed collects the output of a command. printed rejects output that a cancelled command prints later.
type printed struct {
	mutex sync.Mutex
	text  bytes.Buffer
	ended bool
}

func (p *printed) Write(text []byte) (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.ended {
		return 0, io.ErrClosedPipe
	}
	return p.text.Write(text)
}

// end returns the collected text. Later writes fail.
func (p *printed) end() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.ended = true
	return p.text.String()
}

// readRequest reads a message.
func readRequest(in io.Reader) (*request, error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > mostBytes {
		return nil, fmt.Errorf("session: a message has %d bytes, must have at most %d", n, mostBytes)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(in, text); err != nil {
		return nil, err
	}
	r := &request{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	return r, nil
}
