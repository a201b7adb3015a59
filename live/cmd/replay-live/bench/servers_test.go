package bench

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/internal/poll"
)

// kind is a type of server.
type kind struct {
	name, title string
	model       string
	begin       func(s *server, o *options) error
}

// listKinds returns the servers to measure.
func listKinds() []kind {
	return []kind{
		{"vllm", "`replay-live vllm`", "m", (*server).beginVLLM},
		{"frontend", "`replay-live` frontend, worker, etcd and NATS", "m", (*server).beginCluster},
		{"fastapi", "FastAPI and uvicorn, plain", "fake", (*server).beginFake},
		{"guidellm", "`guidellm mock-server`", "fake", (*server).beginGuide},
	}
}

// server is a running server.
type server struct {
	*kind
	url       string
	processes []*exec.Cmd
	dir       string
	flat      bool // generates tokens at full speed
}

// startServer starts a server and waits until it answers.
func startServer(ctx context.Context, o *options, k *kind, flat bool) (_ *server, err error) {
	s := &server{kind: k, flat: flat}
	if s.dir, err = os.MkdirTemp("", "benchlive"); err != nil {
		return nil, err
	}
	if err = k.begin(s, o); err == nil {
		err = s.await(ctx)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// stop stops the processes of the server in reverse order.
func (s *server) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		_ = s.processes[i].Process.Signal(os.Interrupt)
		ended := time.AfterFunc(5*time.Second, func() { _ = s.processes[i].Process.Kill() })
		_ = s.processes[i].Wait()
		ended.Stop()
	}
	os.RemoveAll(s.dir)
}

// launch starts a process. If lines is set, launch returns the first line that the process prints.
func (s *server) launch(lines bool, name string, args ...string) (first map[string]string, err error) {
	cmd := exec.Command(name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	var out *bufio.Reader
	if lines {
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		out = bufio.NewReader(pipe)
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.processes = append(s.processes, cmd)
	if !lines {
		return nil, nil
	}
	line, err := out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %.300s", filepath.Base(name), err, errs.String())
	}
	return first, nil
}

func (s *server) beginVLLM(o *options) error {
	line, err := s.launch(true, o.program, "vllm", "--port=0", "--served-model-name=m", s.speed())
	s.url = line["http"]
	return err
}

func (s *server) beginCluster(o *options) error {
	return s.beginFrontend(o.program, func(etcd, nats string) error {
		_, err := s.launch(true, o.program, "worker", "--etcd", etcd, "--nats", nats, "--model-name=m", s.speed())
		return err
	})
}

// beginFrontend starts etcd, NATS, a worker and a frontend.
func (s *server) beginFrontend(program string, worker func(etcd, nats string) error) error {
	up, err := s.launch(true, program, "stack", "up")
	if err != nil {
		return err
	}
	if err := worker(up["etcd"], up["nats"]); err != nil {
		return err
	}
	line, err := s.launch(true, program, "frontend", "--etcd", up["etcd"], "--nats", up["nats"], "--http-port=0")
	s.url = line["http"]
	return err
}

//go:embed fake.py
var fake []byte

// itl returns the time between two tokens for servers without a simulated engine. The time is similar to the time of
// the simulated engines under this load.
func (s *server) itl() time.Duration {
	if s.flat {
		return 0
	}
	return 10 * time.Millisecond
}

// speed returns the flag for the speed of a simulated engine.
func (s *server) speed() string {
	if s.flat {
		return "--speedup-ratio=10000"
	}
	return "--speedup-ratio=1"
}

var errNoPython = errors.New("no -python")

func (s *server) beginFake(o *options) error {
	if o.python == "" {
		return errNoPython
	}
	file := filepath.Join(s.dir, "fake.py")
	if err := os.WriteFile(file, fake, 0o644); err != nil {
		return err
	}
	port, err := s.choosePort()
	if err == nil {
		_, err = s.launch(false, o.python, file, port, strconv.FormatFloat(s.itl().Seconds(), 'g', -1, 64))
	}
	return err
}

func (s *server) beginGuide(o *options) error {
	if o.python == "" {
		return errNoPython
	}
	port, err := s.choosePort()
	if err == nil {
		_, err = s.launch(false, filepath.Join(filepath.Dir(o.python), "guidellm"), "mock-server", "--port", port, "--model", s.model,
			"--ttft-ms=0", "--itl-ms="+strconv.FormatInt(s.itl().Milliseconds(), 10), "--request-latency=0", "--output-tokens="+strconv.Itoa(o.tokens))
	}
	return err
}

// choosePort chooses a free port for a server and returns it.
func (s *server) choosePort() (string, error) {
	l, err := listen.Open("bench", "127.0.0.1:0", "loopback")
	if err != nil {
		return "", err
	}
	defer l.Close()
	s.url = "http://" + l.Addr().String()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}

// await waits until the server answers a request.
func (s *server) await(ctx context.Context) error {
	var err error
	if !poll.Wait(func() bool {
		var r *http.Response
		if r, err = s.post(ctx, http.DefaultClient, s.body(1, false)); err == nil {
			err = r.Body.Close()
		}
		return err == nil || ctx.Err() != nil
	}) || err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	return nil
}

// cpu returns the processor time of the server's processes and their descendants.
func (s *server) cpu() (sum time.Duration) {
	for _, p := range s.processes {
		sum += cpuOf(p.Process.Pid)
	}
	return sum
}

// cpuOf returns the processor time of a process and its descendants.
func cpuOf(pid int) (sum time.Duration) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	for _, i := range []int{11, 12} { // user and system
		ticks, _ := strconv.ParseInt(fields[i], 10, 64)
		sum += time.Duration(ticks) * clockTick
	}
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range children {
		text, _ := os.ReadFile(file)
		for _, child := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(child); err == nil {
				sum += cpuOf(n)
			}
		}
	}
	return sum
}
