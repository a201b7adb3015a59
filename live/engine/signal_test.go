package engine

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/fault"
)

var clocked = flag.Bool("clocked", false, "hold a worker's shutdown to its limits by the clock; wants an idle machine")

// asWorker is the environment variable with the kind of worker that this test binary runs.
const asWorker = "ENGINE_TEST_AS_WORKER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asWorker); kind != "" {
		os.Exit(workerProcess(kind))
	}
	goleak.VerifyTestMain(m)
}

// told is an engine that prints its calls for the parent process.
type told struct {
	Defaults
	kind    string
	release chan struct{} // closed by Drain, then the answer ends
	fake
}

func (o *told) Start(context.Context, uint64) (EngineConfig, error) {
	fmt.Println("start")
	switch o.kind {
	case "start":
		time.Sleep(300 * time.Millisecond) // the signal arrives now
		fmt.Println("started")
	case "fail":
		return EngineConfig{}, fault.New(fault.BackendInvalidArgument, "no such model")
	}
	return EngineConfig{Model: "told"}, nil
}

func (o *told) Drain(context.Context) error {
	fmt.Println("drain")
	if o.kind == "hang" {
		select {}
	}
	close(o.release)
	return nil
}

func (o *told) Abort(cancel.Context) { fmt.Println("abort") }

func (o *told) Cleanup(context.Context) error {
	fmt.Println("cleanup")
	return nil
}

// workerProcess runs a worker. In the kind stream it also runs a caller, which is in the middle of an answer.
func workerProcess(kind string) int {
	config, err := drt.FromEnv(os.Getenv)
	if err != nil {
		panic(err)
	}
	e := &told{kind: kind, release: make(chan struct{})}
	e.generate = func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		yield(token(1), nil)
		<-e.release
		yield(finish(FinishStop), nil)
	}
	called := make(chan struct{})
	close(called)
	err = Run(e, WorkerConfig{
		Runtime: &config,
		Ready: func(Ready) error {
			if kind == "stream" {
				called = make(chan struct{})
				go func() { defer close(called); callOnce(config) }()
				return nil
			}
			fmt.Println("ready")
			return nil
		},
	})
	<-called
	if err != nil {
		fmt.Println("error", errors.Is(err, fault.BackendInvalidArgument))
		return 1
	}
	return 0
}

// callOnce calls the worker. The answer ends while the worker drains.
func callOnce(config drt.Config) {
	rt, err := drt.Connect(context.Background(), config)
	if err != nil {
		panic(err)
	}
	ep, err := rt.Endpoint("dynamo", "backend", "generate")
	if err != nil {
		panic(err)
	}
	client, err := ep.Client(context.Background(), drt.ClientOptions{})
	if err != nil {
		panic(err)
	}
	chunks, err := NewRemote(client, drt.RoundRobin()).Generate(context.Background(), cancel.New(""), request(), nil)
	if err != nil {
		panic(err)
	}
	for c, err := range chunks {
		if err != nil {
			panic(err)
		}
		if len(c.TokenIDs) > 0 {
			fmt.Println("ready") // the signal arrives now
			continue
		}
		fmt.Println(string(c.FinishReason))
	}
	if err := rt.Close(context.Background()); err != nil {
		panic(err)
	}
}

// Processes receive SIGTERM while they start, while they serve, during an answer, and while they fail or hang.
func TestSignalsToProcesses(t *testing.T) {
	tests := []struct {
		kind  string
		at    string // the line after which the signal is sent; "": no signal
		want  string
		code  int
		after time.Duration // expected time from the signal to the end, with -clocked
	}{
		{"start", "start", "start started drain cleanup", 0, 300 * time.Millisecond},
		{"serve", "ready", "start ready drain cleanup", 0, time.Second},
		{"stream", "ready", "start ready drain stop cleanup", 0, time.Second},
		{"fail", "", "start cleanup error true", 1, 0},
		{"hang", "ready", "start ready drain", 143, 3 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			got, code, after := runProcess(t, test.kind, test.at)
			if got != test.want || code != test.code {
				t.Errorf("%q, exit %d, want %q, exit %d", got, code, test.want, test.code)
			}
			if test.at == "" {
				return
			}
			t.Logf("ended %v after the signal", after.Round(time.Millisecond))
			if d := after - test.after; *clocked && (d < -time.Second || d > time.Second) {
				t.Errorf("ended %v after the signal, want %v ± 1s", after, test.after)
			}
		})
	}
}

// runProcess runs a worker of a kind, with a grace period of 1 s and a shutdown timeout of 2 s. runProcess sends
// SIGTERM when the worker prints at.
func runProcess(t *testing.T, kind, at string) (lines string, code int, after time.Duration) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c, servers := exec.Command(self), drttest.Start(t)
	c.Env = append(os.Environ(), asWorker+"="+kind, "ETCD_ENDPOINTS="+servers.EtcdURL(), "NATS_SERVER="+servers.NATSURL(),
		"DYN_TCP_RESPONSE_STREAM_HOST=127.0.0.1", "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS=1", "DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT=2")
	if kind != "hang" {
		c.Env = append(c.Env, "DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT=60") // no limit on a busy machine
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill() }()
	var all []string
	var sent time.Time
	for s := bufio.NewScanner(out); s.Scan(); {
		all = append(all, s.Text())
		if s.Text() == at {
			sent = time.Now()
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = c.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if left := servers.Keys(t); kind != "hang" && len(left) != 0 {
		t.Errorf("keys %q are left", left)
	}
	return strings.Join(all, " "), c.ProcessState.ExitCode(), time.Since(sent)
}
