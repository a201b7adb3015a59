package sessions_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
)

// answer is an answer of the program.
type answer struct {
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
}

// session is a running program that answers command lines.
type session struct {
	t     *testing.T
	in    *io.PipeWriter
	out   *io.PipeReader
	err   bytes.Buffer
	ended chan int
}

func open(t *testing.T) *session {
	s := &session{t: t, ended: make(chan int, 1)}
	in, out := io.Reader(nil), io.WriteCloser(nil)
	in, s.in = io.Pipe()
	s.out, out = io.Pipe()
	go func() {
		s.ended <- cli.Program(root.New).RunIn(t.Context(), cli.Streams{In: in, Out: out, Err: &s.err, Args: []string{"session"}})
		out.Close()
	}()
	return s
}

func (s *session) send(message any) {
	text, err := json.Marshal(message)
	if err == nil {
		_, err = s.in.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
	if err != nil {
		s.t.Error(err)
	}
}

func (s *session) read() answer {
	s.t.Helper()
	var head [4]byte
	var a answer
	if _, err := io.ReadFull(s.out, head[:]); err != nil {
		s.t.Fatal(err)
	}
	text := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(s.out, text); err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *session) run(args ...string) answer {
	s.t.Helper()
	s.send(map[string]any{"args": args})
	return s.read()
}

func (s *session) end() int {
	s.t.Helper()
	select {
	case code := <-s.ended:
		return code
	case <-time.After(5 * time.Second):
		s.t.Fatal("the session does not end")
	}
	return 0
}

const rows = `{"timestamp": 0, "input_length": 10, "output_length": 5, "hash_ids": [1]}
{"timestamp": 50, "input_length": 20, "output_length": 5, "hash_ids": [1]}
`

// A session prints the same output as the command. A session keeps a trace in memory until the file changes.
func TestSession(t *testing.T) {
	s := open(t)
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	write := func(text string, at time.Time) {
		if err := os.WriteFile(trace, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(trace, at, at); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now().Add(-time.Hour)
	write(rows, begin)
	first := s.run("trace", trace, "--digest")
	var want bytes.Buffer
	cli.Program(root.New).Run([]string{"trace", trace, "--digest"}, strings.NewReader(""), &want, io.Discard)
	if clock := regexp.MustCompile("(?m)^Wall Time.*"); clock.ReplaceAllString(first.Stdout, "") != clock.ReplaceAllString(want.String(), "") {
		t.Errorf("the session prints %s, the command %s", first.Stdout, want.String())
	}
	if first.ExitCode != 0 || !strings.Contains(first.Stdout, "Digest: ") {
		t.Fatalf("%+v", first)
	}
	write(strings.Repeat("x", len(rows)), begin)
	if again := s.run("trace", trace, "--workers=2"); again.ExitCode != 0 {
		t.Errorf("the trace is read again: %s", again.Stderr)
	}
	if again := s.run("sweep", "--trace", trace, "--grid=workers=1,2"); again.ExitCode != 0 {
		t.Errorf("a sweep reads the trace again: %s", again.Stderr)
	}
	write(strings.Repeat("x", len(rows)), begin.Add(time.Minute))
	if again := s.run("trace", trace); again.ExitCode != 1 || !strings.Contains(again.Stderr, "trace.jsonl") {
		t.Errorf("the trace that changed is not read: %+v", again)
	}
	os.Remove(trace)
	if gone := s.run("trace", trace); gone.ExitCode != 1 || !strings.Contains(gone.Stderr, "no such file") {
		t.Errorf("%+v", gone)
	}
	if wrong := s.run("trace", trace, "--workrs=2"); wrong.ExitCode != 2 || !strings.Contains(wrong.Stderr, "did you mean --workers?") {
		t.Errorf("%+v", wrong)
	}
	for _, args := range [][]string{{}, {"session"}, {"worker"}, {"--help"}} {
		if refused := s.run(args...); refused.ExitCode != 2 || !strings.Contains(refused.Stderr, "session: args must begin with one of trace, ") {
			t.Errorf("%q: %+v", args, refused)
		}
	}
	s.in.Close()
	if code := s.end(); code != 0 {
		t.Errorf("ends with %d", code)
	}
}

// listLong returns the arguments of a command that takes minutes.
func listLong() []string {
	return []string{"concurrency", "--max-in-flight=4", "--input-tokens=100", "--output-tokens=20000", "--request-count=20000", "--router=kv", "--workers=4"}
}

// A cancel message cancels the current command and not the next one.
func TestCancel(t *testing.T) {
	s := open(t)
	s.send(map[string]any{"cancel": true})
	s.send(map[string]any{"args": listLong()})
	began := time.Now()
	s.send(map[string]any{"cancel": true})
	if a := s.read(); a.ExitCode != 130 || time.Since(began) > 5*time.Second {
		t.Errorf("%v: %+v", time.Since(began), a)
	}
	if a := s.run("trace", "--input-tokens=10", "--output-tokens=5", "--request-count=5"); a.ExitCode != 0 {
		t.Errorf("%+v", a)
	}
	s.in.Close()
	s.end()
}

// The end of standard input ends the current command and the session.
func TestParentGone(t *testing.T) {
	s := open(t)
	s.send(map[string]any{"args": listLong()})
	s.in.Close()
	if a := s.read(); a.ExitCode != 130 {
		t.Errorf("%+v", a)
	}
	s.end()
}

// Messages that are too long or not JSON end the session with an error.
func TestWrongMessages(t *testing.T) {
	for message, want := range map[string]string{"\xff\xff\xff\xff": "a message has 4294967295 bytes, must have at most 16777216", "\x00\x00\x00\x01{": "session: ", "\x00\x00\x00\x09{}": "unexpected EOF"} {
		var out, err bytes.Buffer
		code := cli.Program(root.New).RunIn(context.Background(), cli.Streams{In: strings.NewReader(message), Out: &out, Err: &err, Args: []string{"session"}})
		if code != 1 || !strings.Contains(err.String(), want) {
			t.Errorf("%q: %d, %s", message, code, err.String())
		}
	}
}
