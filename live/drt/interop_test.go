package drt_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
)

// The peer is the published Python package ai-dynamo-runtime. The interop tests require this package (make interop).
var peerPython = flag.String("peer", "", "`python` that has the package ai-dynamo-runtime")

// peer is a process of the peer that prints lines.
type peer struct {
	in    io.WriteCloser
	lines *bufio.Scanner
	t     *testing.T
}

// startPeer runs a script of testdata/peer with the servers of config.
func startPeer(t *testing.T, config drt.Config, script string, args ...string) *peer {
	t.Helper()
	if *peerPython == "" {
		t.Skip("skipped: no peer, which -peer names (make interop)")
	}
	optional.Program(t, *peerPython, "-c", "import dynamo.runtime")
	cmd := exec.CommandContext(limited(t), *peerPython, append([]string{filepath.Join("testdata", "peer", script)}, args...)...)
	cmd.Env = append(os.Environ(),
		"ETCD_ENDPOINTS="+config.Etcd.Endpoints[0], "NATS_SERVER="+config.NATS.URL,
		"DYN_LOG=error")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the process was killed
	})
	return &peer{in, bufio.NewScanner(out), t}
}

// line returns the next line that is not a log line.
func (p *peer) line() string {
	p.t.Helper()
	if !p.lines.Scan() {
		p.t.Fatalf("the peer ended: %v", p.lines.Err())
	}
	p.t.Logf("peer: %s", p.lines.Text())
	return p.lines.Text()
}

// until reads lines up to a line of want, and returns that line.
func (p *peer) until(want ...string) string {
	p.t.Helper()
	for {
		line := p.line()
		for _, w := range want {
			if line == w {
				return line
			}
		}
	}
}

// A client of this package calls the peer's worker, and stops a request.
func TestInteropPeerWorker(t *testing.T) {
	for _, plane := range []drt.RequestPlane{drt.NATS, drt.TCP} {
		t.Run(string(plane), func(t *testing.T) { peerWorker(t, plane) })
	}
}

func peerWorker(t *testing.T, plane drt.RequestPlane) {
	t.Helper()
	_, config := servers(t, stack.Options{})
	p := startPeer(t, config, "worker.py", "test.backend.generate", string(plane))
	p.until("serving")
	c := client(t, join(t, config), "generate", 1)
	t.Logf("instance %+v", c.Instances()[0].Transport)

	got, err := call(t, c, `{"n":3}`, drt.RoundRobin())
	if want := `{"token_ids":[0]} {"token_ids":[1]} {"token_ids":[2]} {"finish_reason":"length","token_ids":[]}`; err != nil || sorted(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	p.until("done")
	got, err = call(t, c, `{"n":1,"fail":true}`, drt.RoundRobin())
	t.Logf("a handler that fails: %s, %v", got, err)
	if err == nil || sorted(got) != `{"token_ids":[0]}` {
		t.Errorf("a handler that fails: %s, %v, want one item and an error", got, err)
	}

	for _, kill := range []bool{false, true} {
		rc := cancel.New("")
		s, err := c.Generate(limited(t), rc, &drt.Request{Payload: json.RawMessage(`{"n":5000,"slow":true}`)}, drt.RoundRobin())
		if err != nil {
			t.Fatal(err)
		}
		began, n := time.Now(), 0
		for _, err := range s.Items() {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 3 && kill {
				rc.Kill()
			} else if n == 3 {
				rc.Stop()
			}
		}
		t.Logf("kill %v: %d items, ended after %v, the peer says %q", kill, n, time.Since(began), p.until("stopped", "killed"))
		if n > 1000 {
			t.Errorf("%d items after a stop at the third", n)
		}
	}
}

// sorted returns text with the keys of every JSON object in order.
func sorted(text string) string {
	var all []string
	decoder := json.NewDecoder(strings.NewReader(text))
	for {
		var one map[string]any
		if decoder.Decode(&one) != nil {
			return strings.Join(all, " ")
		}
		b, err := json.Marshal(one)
		if err != nil {
			return err.Error()
		}
		all = append(all, string(b))
	}
}

// answers is the output of the peer's caller for a call.
type answers struct {
	Items []json.RawMessage
	Error string
}

func (p *peer) ask(line string) (a answers) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(p.line()), &a); err != nil {
		p.t.Fatal(err)
	}
	return a
}

// ticking answers like the peer's worker.
func ticking(ctx context.Context, rc cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
	var in struct {
		N          int
		Slow, Fail bool
		Stop       struct {
			Max *int `json:"max_tokens"`
		} `json:"stop_conditions"`
	}
	if err := json.Unmarshal(rq.Payload, &in); err != nil {
		return nil, err
	}
	if in.Stop.Max != nil {
		in.N = *in.Stop.Max // the remaining tokens after a migration
	}
	return func(yield func(drt.Item, error) bool) {
		for i := range in.N {
			if !yield(drt.Item{Data: fmt.Appendf(nil, `{"token_ids":[%d]}`, i)}, nil) {
				return
			}
			if !in.Slow {
				continue
			}
			select {
			case <-rc.Stopped():
				yield(drt.Item{Data: json.RawMessage(`{"token_ids":[],"finish_reason":"cancelled"}`), Last: true}, nil)
				return
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
		if in.Fail {
			yield(drt.Item{}, fmt.Errorf("on request"))
			return
		}
		yield(drt.Item{Data: json.RawMessage(`{"token_ids":[],"finish_reason":"length"}`), Last: true}, nil)
	}, nil
}

// The peer's caller calls a worker of this package, and stops a request.
func TestInteropPeerCaller(t *testing.T) {
	for _, plane := range []drt.RequestPlane{drt.NATS, drt.TCP} {
		t.Run(string(plane), func(t *testing.T) { peerCaller(t, plane) })
	}
}

func peerCaller(t *testing.T, plane drt.RequestPlane) {
	t.Helper()
	_, config := servers(t, stack.Options{})
	config.Plane = plane
	rt := join(t, config)
	m := newCounts()
	serving := serve(t, rt, "generate", ticking, drt.ServeOptions{Metrics: m.Endpoint})
	p := startPeer(t, config, "caller.py", "test.backend.generate", string(plane))
	if line := p.line(); line != fmt.Sprintf(`{"instances": [%d]}`, rt.ID()) {
		t.Errorf("the peer sees %s, want instance %d", line, rt.ID())
	}
	if a := p.ask(`{"request":{"n":3}}`); a.Error != "" || len(a.Items) != 4 {
		t.Errorf("%+v, want four items", a)
	}
	if a := p.ask(`{"request":{"n":1,"fail":true}}`); !strings.Contains(fmt.Sprintf("%s %s", a.Error, a.Items), "on request") {
		t.Errorf("a handler that fails: %s %s, want its error", a.Error, a.Items)
	}
	// A refusal does not make the instance unavailable: the next call reaches it.
	if a := p.ask(`{"request":{"n":"many"}}`); !strings.Contains(fmt.Sprintf("%s %s", a.Error, a.Items), "cannot unmarshal") {
		t.Errorf("a request that is refused: %s %s, want why", a.Error, a.Items)
	}
	if a := p.ask(`{"request":{"n":3}}`); a.Error != "" || len(a.Items) != 4 {
		t.Errorf("after a refusal: %s %s, want four items", a.Error, a.Items)
	}
	if n := m.cancelled(); n != 0 {
		t.Errorf("%d cancellations counted, want none", n)
	}
	if a := p.ask(`{"request":{"n":5000,"slow":true},"stop_after":3}`); len(a.Items) > 1000 {
		t.Errorf("%d items after a stop at the third", len(a.Items))
	}
	if err := serving.Wait(limited(t)); err != nil {
		t.Error(err)
	}
	if n := m.cancelled(); n != 1 {
		t.Errorf("%d cancellations counted, want 1", n)
	}
}
