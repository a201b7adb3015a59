package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/link"
	"github.com/replay-llm/replay/live/link/linktest"
)

const linkToken = "what-only-the-cluster-knows"

// complete asks a frontend for a completion, and returns the status and the body.
func complete(t *testing.T, front *member, model string) (int, string) {
	t.Helper()
	return postJSON(t, front.HTTP+"/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"hello","max_tokens":2}`, model))
}

// awaitModel waits until a frontend knows a model.
func awaitModel(t *testing.T, front *member, model string) {
	t.Helper()
	poll.Until(t, model+" is served", func() bool {
		r, err := http.Get(front.HTTP + "/v1/models")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return strings.Contains(string(b), `"`+model+`"`)
	})
}

// freePort returns a port that nobody listens at.
func freePort(t *testing.T, host string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// A cluster whose listeners others may reach serves those who prove that they belong to it, over
// every one of them; a caller and a worker that do not are told so in a line, and counted.
func TestLinks(t *testing.T) {
	host := link.RoutableAddress()
	if host == "127.0.0.1" {
		t.Skip("skipped: this machine has no address but loopback to listen at")
	}
	ca := linktest.NewAuthority(t)
	cert, key := ca.Issue(t, "member", net.ParseIP(host))
	for name, test := range map[string]struct{ flags, env []string }{
		"token":        {nil, []string{"REPLAY_LINK_TOKEN=" + linkToken}},
		"certificates": {[]string{"--link-cert=" + cert, "--link-key=" + key, "--link-ca=" + ca.File}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			strangers := newCompound(t)
			ours := &compound{t: t, servers: strangers.servers, env: test.env}
			meet := freePort(t, host)
			common := append([]string{"--response-host=" + host, "--request-plane=tcp"}, test.flags...)
			prefill := ours.worker(append([]string{"--disaggregation-mode=prefill", "--bootstrap-host=" + host, "--bootstrap-port=" + meet}, common...)...)
			decode := ours.worker(append([]string{"--disaggregation-mode=decode"}, common...)...)
			front := ours.front(append([]string{"--response-host=" + host, "--call-home-timeout=1s"}, test.flags...)...)
			awaitModel(t, front, "mocker-model")
			if code, body := complete(t, front, "mocker-model"); code != http.StatusOK {
				t.Fatalf("%d: %s %s", code, body, &decode.err)
			}
			c, err := net.Dial("tcp", net.JoinHostPort(host, meet))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write(make([]byte, 8)); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(b, []byte("replay: refused: ")) || bytes.Count(b, []byte("\n")) != 1 {
				t.Errorf("rendezvous: %q, %v", b, err)
			}
			stranger := strangers.front()
			awaitModel(t, stranger, "mocker-model")
			if code, body := complete(t, stranger, "mocker-model"); code < 500 {
				t.Errorf("a caller that is not ours: %d: %s", code, body)
			}
			for _, listener := range []string{"rendezvous", "requests"} {
				poll.Until(t, listener+" counted", func() bool {
					return prefill.metric("replay_refused_connections_total", fmt.Sprintf("listener=%q", listener)) > 0
				})
			}
			foreign := strangers.worker("--model-name=foreign", "--component=foreign")
			awaitModel(t, front, "foreign")
			if code, body := complete(t, front, "foreign"); code < 500 {
				t.Errorf("a worker that is not ours: %d: %s", code, body)
			}
			if n := front.metric("replay_refused_connections_total", `listener="response_streams"`); n == 0 {
				t.Error("a worker that is not ours is not counted")
			}
			foreign.end()
			if line := foreign.err.String(); strings.Count(line, "it refuses us") != 1 {
				t.Errorf("a worker that is not ours says %q", line)
			}
			for _, m := range []*member{prefill, decode, front} {
				m.end()
				if strings.Contains(m.err.String(), linkToken) {
					t.Errorf("%v tells the token: %s", m.cmd.Args[1:], &m.err)
				}
			}
		})
	}
}

// Nobody listens where everybody is let in, unless that is said.
func TestListenElsewhereIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"worker", "--response-host", "0.0.0.0"}, {"frontend", "--response-host", "0.0.0.0"},
		{"worker", "--disaggregation-mode", "prefill", "--bootstrap-host", "0.0.0.0"},
		{"worker", "--system-host", "0.0.0.0", "--system-port", "0"},
	} {
		var out, errs bytes.Buffer
		if code := run(args, strings.NewReader(""), &out, &errs); code != cli.ExitUsage || !strings.Contains(errs.String(), "0.0.0.0, which other machines may reach: want") || out.Len() > 0 {
			t.Errorf("%v: exit %d: %s", args, code, &errs)
		}
	}
	c := newCompound(t)
	m := c.worker("--insecure", "--response-host=0.0.0.0", "--system-host=0.0.0.0", "--request-plane=tcp")
	if !strings.HasPrefix(m.System, "[::]:") && !strings.HasPrefix(m.System, "0.0.0.0:") {
		t.Errorf("system at %s", m.System)
	}
}

// What a worker tells in discovery is where it listens, and that is loopback.
func TestListensOnLoopback(t *testing.T) {
	t.Parallel()
	c := newCompound(t)
	m := c.start("worker", "--system-port=0", "--grace=0s", "--request-plane=tcp", "--disaggregation-mode=prefill")
	if !strings.HasPrefix(m.System, "127.0.0.1:") {
		t.Errorf("system at %s", m.System)
	}
	var out, errs bytes.Buffer
	if code := run(append([]string{"stack", "instances", "dynamo.prefill.generate", "--wait", "1m"}, c.flags()...), strings.NewReader(""), &out, &errs); code != cli.ExitDone || !strings.Contains(out.String(), `127.0.0.1:`) {
		t.Errorf("exit %d: %s %s", code, &out, &errs)
	}
	open, err := exec.Command("sh", "-c", fmt.Sprintf(`ls -l /proc/%d/fd 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\].*/\1/p' | while read i; do awk -v i=$i '$4=="0A" && $10==i {print $2}' /proc/%d/net/tcp /proc/%d/net/tcp6; done`, m.cmd.Process.Pid, m.cmd.Process.Pid, m.cmd.Process.Pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/self/net/tcp"); err == nil && len(open) == 0 {
		t.Error("no sockets are found")
	}
	for _, at := range strings.Fields(string(open)) {
		if !strings.HasPrefix(at, "0100007F:") {
			t.Errorf("listens at %s (hexadecimal), want 127.0.0.1", at)
		}
	}
}

// A worker that is told to call an address it may not dial refuses the request, at once and in a line.
func TestAllowDial(t *testing.T) {
	host := link.RoutableAddress()
	if host == "127.0.0.1" {
		t.Skip("skipped: this machine has no address but loopback to listen at")
	}
	c := newCompound(t)
	m := c.worker("--allow-dial=loopback")
	front := c.front("--insecure", "--response-host="+host)
	awaitModel(t, front, "mocker-model")
	from := time.Now()
	if code, body := complete(t, front, "mocker-model"); code == http.StatusOK || !strings.Contains(body, "is no address to dial here: only loopback (--allow-dial)") {
		t.Errorf("%d: %s", code, body)
	}
	if took := time.Since(from); took > 8*time.Second { // the time to call home is 10 s
		t.Errorf("refused after %v", took)
	}
	if n := m.metric("dynamo_component_errors_total", `error_type="invalid_message"`); n != 1 {
		t.Errorf("counted %v times", n)
	}
}
