package drt_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
)

// Tests that kill and pause processes measure times and take long. The tests that kill and pause processes run with
// make cluster-faults.
var faults = flag.Bool("faults", false, "run the tests that kill and pause processes, and measure how long things take")

// asWorker is the environment variable with a configuration as JSON. asWorker makes this program run a worker.
const asWorker = "REPLAY_TEST_WORKER"

// workerConfig is the configuration of a worker process.
type workerConfig struct {
	Etcd, NATS string
	LeaseLoss  drt.LeaseLoss
	Lease      time.Duration
}

func TestMain(m *testing.M) {
	if text := os.Getenv(asWorker); text != "" {
		if err := work(text); err != nil {
			fmt.Println("ended:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if text := os.Getenv(asCaller); text != "" {
		fmt.Println("ended:", callForEver(text))
		os.Exit(1)
	}
	flag.Parse()
	os.Exit(m.Run())
}

// work serves an endpoint until its lease is lost.
func work(text string) error {
	var c workerConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	rt, err := drt.Connect(context.Background(), drt.Config{
		Etcd: drt.EtcdConfig{Endpoints: []string{c.Etcd}}, NATS: drt.NATSConfig{URL: c.NATS},
		Lease: c.Lease, LeaseLoss: c.LeaseLoss, ResponseHost: "127.0.0.1",
	})
	if err != nil {
		return err
	}
	e, err := rt.Endpoint("test", "backend", "generate")
	if err != nil {
		return err
	}
	s, err := e.Serve(ticking, drt.ServeOptions{})
	if err != nil {
		return err
	}
	if err := s.Register(context.Background()); err != nil {
		return err
	}
	fmt.Printf("serving %d\n", rt.ID())
	<-rt.Done()
	grace, release := context.WithTimeout(context.Background(), time.Second)
	defer release()
	return errors.Join(rt.Err(), rt.Close(grace))
}

// process is a worker in a separate process.
type process struct {
	id    uint64
	cmd   *exec.Cmd
	ended chan error
}

func spawn(t *testing.T, config drt.Config, loss drt.LeaseLoss) *process {
	t.Helper()
	text, err := json.Marshal(workerConfig{config.Etcd.Endpoints[0], config.NATS.URL, loss, config.Lease})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(self), ended: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), asWorker+"="+string(text))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("the worker said nothing: %v", lines.Err())
	}
	if _, err := fmt.Sscanf(lines.Text(), "serving %d", &p.id); err != nil {
		t.Fatalf("the worker said %q", lines.Text())
	}
	go func() {
		for lines.Scan() {
			continue
		}
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// code waits for the end of p and returns its exit code.
func (p *process) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-limited(t).Done():
		t.Fatal("the worker does not end")
		return 0
	}
}

// within checks that the time since began is at most limit, and logs it.
func within(t *testing.T, what string, began time.Time, limit time.Duration) {
	t.Helper()
	took := time.Since(began)
	t.Logf("%-60s %10v  (limit %v)", what, took.Round(10*time.Microsecond), limit)
	if took > limit {
		t.Errorf("%s took %v, want at most %v", what, took, limit)
	}
}

// cluster starts servers and workers with the shortest lease.
func cluster(t *testing.T, workers int) (*stack.Stack, drt.Config, []*process) {
	t.Helper()
	if !*faults {
		t.Skip("skipped: kills processes and takes its time; -faults (make cluster-faults) runs it")
	}
	s, config := servers(t, stack.Options{})
	config.Lease = 2 * time.Second
	var all []*process
	for range workers {
		all = append(all, spawn(t, config, drt.Exit))
	}
	return s, config, all
}

const ttl = 2 * time.Second
