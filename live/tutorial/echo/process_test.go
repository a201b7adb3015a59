package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
)

// asProgram is the environment variable that makes this test binary run main.
const asProgram = "ECHO_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestDocumented checks that each Go block of docs/runtime.md is a part of a file of this directory.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "runtime.md"))
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, name := range []string{"echo.go", "main.go", "echo_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, string(text))
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) < 1 {
		t.Errorf("%d blocks of Go, want an answer of an engine", len(blocks))
	}
	for _, b := range blocks {
		code, _, _ := strings.Cut(b, "```")
		if !slices.ContainsFunc(sources, func(s string) bool { return strings.Contains(s, code) }) {
			t.Errorf("docs/runtime.md shows what no file has:\n%s", code)
		}
	}
	for _, part := range []string{"func (e *Echo) Generate", "conformance.Run"} {
		if !strings.Contains(string(page), part) {
			t.Errorf("docs/runtime.md does not show %s", part)
		}
	}
}

// The program serves over etcd and NATS in a separate process. After a SIGTERM the program still completes the
// current answer.
func TestProgram(t *testing.T) {
	s, err := stack.Start(t.Context(), stack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	program := exec.Command(self, "-namespace", "tutorial", "-pace", "1ms")
	program.Env = append(os.Environ(), asProgram+"=1", "ETCD_ENDPOINTS="+s.EtcdURL(), "NATS_SERVER="+s.NATSURL(),
		"DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS=0", "DYN_TCP_RESPONSE_STREAM_HOST=127.0.0.1")
	program.Stderr = &log
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Process.Kill() }()

	rt := drttest.Connect(t, drt.Config{
		Etcd: drt.EtcdConfig{Endpoints: []string{s.EtcdURL()}}, NATS: drt.NATSConfig{URL: s.NATSURL()}, ResponseHost: "127.0.0.1",
	})
	client := drttest.Client(t, rt, "tutorial.backend.generate")
	echo := engine.NewRemote(client, drt.RoundRobin())
	if _, err := echo.Generate(t.Context(), cancel.New(""), &engine.Request{TokenIDs: []uint32{}}, nil); !errors.Is(err, fault.BackendInvalidArgument) {
		t.Errorf("an empty prompt: %v", err)
	}
	rq := &engine.Request{TokenIDs: []uint32{7, 8, 9}}
	rq.SetMaxTokens(200)
	chunks, err := echo.Generate(t.Context(), cancel.New(""), rq, nil)
	if err != nil {
		t.Fatal(err)
	}
	tokens, reason := 0, engine.FinishReason("")
	for c, err := range chunks {
		if err != nil {
			t.Fatal(err)
		}
		if tokens == 0 {
			if err := program.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range c.TokenIDs {
			if id != rq.TokenIDs[tokens%3] {
				t.Errorf("token %d is %d", tokens, id)
			}
			tokens++
		}
		reason = c.FinishReason
	}
	if tokens != 200 || reason != engine.FinishLength {
		t.Errorf("%d tokens and %q, want 200 and length", tokens, reason)
	}
	if err := program.Wait(); err != nil {
		t.Errorf("the program ended with %v\n%s", err, log.String())
	}
	if got := client.Instances(); len(got) > 0 {
		t.Logf("discovery still knows %s", fmt.Sprint(got))
	}
}
