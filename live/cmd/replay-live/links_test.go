package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/certtest"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cmd/replay-live/root"
)

const linkToken = "what-only-the-cluster-knows"

// complete requests a completion from a frontend, and returns the status and the body.
func complete(t *testing.T, front *member, model string) (int, string) {
	t.Helper()
	return postJSON(t, front.HTTP+"/v1/completions", fmt.Sprintf(`{"model":%q,"prompt":"hello","max_tokens":2}`, model))
}

// awaitModel waits until a frontend serves a model.
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

// freePort returns a port without a listener.
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

// A cluster with listeners outside loopback serves peers that authenticate, on every listener. A caller and a worker
// without credentials get an error of one line, and are counted.
func TestLinks(t *testing.T) {
	host := listen.RoutableAddress()
	if host == "127.0.0.1" {
		t.Skip("skipped: this machine has no address but loopback to listen at")
	}
	ca := certtest.NewAuthority(t)
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

// hostFlags returns the flags of all commands that set a listening address, as "command --flag".
func hostFlags(cmd *cobra.Command, path string) (all []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "listen" || f.Name == "host" || strings.HasSuffix(f.Name, "-host") || f.Name == "kv-events-config" {
			all = append(all, strings.TrimSpace(path+" --"+f.Name))
		}
	})
	for _, c := range cmd.Commands() {
		all = append(all, hostFlags(c, strings.TrimSpace(path+" "+c.Name()))...)
	}
	return all
}

// No command listens outside loopback with any of its flags, unless --insecure or credentials allow it.
func TestListenElsewhereIsRefused(t *testing.T) {
	synthetic := []string{"--mode", "cluster", "--response-host", "0.0.0.0", "--input-tokens", "8", "--output-tokens", "8", "--request-count", "1"}
	const events = `{"enable_kv_cache_events":true,"endpoint":"tcp://0.0.0.0:0"}`
	refused := map[string][]string{
		"worker --response-host":   {"worker", "--response-host", "0.0.0.0"},
		"worker --bootstrap-host":  {"worker", "--disaggregation-mode", "prefill", "--bootstrap-host", "0.0.0.0"},
		"worker --system-host":     {"worker", "--system-host", "0.0.0.0", "--system-port", "0"},
		"worker --kv-events-host":  {"worker", "--kv-events-host", "0.0.0.0"},
		"frontend --response-host": {"frontend", "--response-host", "0.0.0.0"},
		"frontend --http-host":     {"frontend", "--http-host", "0.0.0.0"},
		"vllm --host":              {"vllm", "--port", "0", "--host", "0.0.0.0"},
		"vllm --kv-events-config":  {"vllm", "--port", "0", "--kv-events-config", events},
		"sglang --host":            {"sglang", "--port", "0", "--host", "0.0.0.0"},
		"record --listen":          {"record", "--listen", "0.0.0.0:0", "--upstream", "http://127.0.0.1:1", "--out", t.TempDir() + "/run"},
		"stack up --host":          {"stack", "up", "--host", "0.0.0.0"},
		"--response-host":          synthetic, "trace --response-host": append([]string{"trace"}, synthetic...),
		"concurrency --response-host":     append([]string{"concurrency", "--max-in-flight", "2"}, synthetic...),
		"stack instances --response-host": {"stack", "instances", "--response-host", "0.0.0.0"},
	}
	for _, flag := range hostFlags(root.New(cli.Streams{}, nil), "") {
		if refused[flag] == nil {
			t.Errorf("%s: says where to listen, add it to this test", flag)
		}
	}
	for _, args := range refused {
		var out, errs bytes.Buffer
		if code := run(args, strings.NewReader(""), &out, &errs); code != cli.ExitUsage || !strings.Contains(errs.String(), "0.0.0.0, which other machines may reach: requires ") || out.Len() > 0 {
			t.Errorf("%v: exit %d: %s", args, code, &errs)
		}
	}
	t.Setenv("REPLAY_LINK_TOKEN", linkToken) // KV events have no authentication
	for _, flag := range []string{"worker --kv-events-host", "vllm --kv-events-config", "record --listen", "stack up --host"} {
		var out, errs bytes.Buffer
		if code := run(refused[flag], strings.NewReader(""), &out, &errs); code != cli.ExitUsage {
			t.Errorf("%v with a token: exit %d: %s", refused[flag], code, &errs)
		}
	}
}

// With --insecure a worker listens on all addresses, and reports addresses that can be dialled.
func TestListenEverywhere(t *testing.T) {
	host := listen.RoutableAddress()
	c := newCompound(t)
	m := c.worker("--insecure", "--response-host=0.0.0.0", "--system-host=0.0.0.0", "--kv-events-host=0.0.0.0", "--request-plane=tcp")
	for _, at := range []string{m.System, m.KVEvents, m.KVReplay} {
		if !strings.HasPrefix(strings.TrimPrefix(at, "tcp://"), host+":") {
			t.Errorf("%q is reported, want an address at %s", at, host)
		}
	}
	front := c.front("--insecure", "--http-host=0.0.0.0", "--response-host=0.0.0.0", "--router=kv")
	if !strings.HasPrefix(front.HTTP, "http://"+host+":") {
		t.Errorf("frontend at %s", front.HTTP)
	}
	awaitModel(t, front, "mocker-model")
	if code, body := complete(t, front, "mocker-model"); code != http.StatusOK {
		t.Errorf("%d: %s", code, body)
	}
	_, _, line := startProcess(t, 1, "vllm", "--port=0", "--host=::", "--insecure", "--kv-events-config", `{"enable_kv_cache_events":true,"endpoint":"tcp://*:0"}`)
	if !strings.Contains(line, `"http":"http://`+host+`:`) || !strings.Contains(line, `"kv_events":"tcp://`+host+`:`) {
		t.Error(line)
	}
	_, _, line = startProcess(t, 1, "stack", "up", "--host=0.0.0.0", "--insecure")
	if !strings.Contains(line, `"etcd":"http://`+host+`:`) || !strings.Contains(line, `"nats":"nats://`+host+`:`) {
		t.Error(line)
	}
}

// A server outside loopback requires the token, except at the paths of probes. With --insecure the server requires no
// token.
func TestTokenOfUsers(t *testing.T) {
	host := listen.RoutableAddress()
	if host == "127.0.0.1" {
		t.Skip("skipped: this machine has no address but loopback to listen at")
	}
	for _, test := range []struct {
		args          []string
		token         string
		status, probe int
	}{
		{nil, "", http.StatusUnauthorized, http.StatusOK},
		{nil, "another", http.StatusUnauthorized, http.StatusOK},
		{nil, linkToken, http.StatusOK, http.StatusOK},
		{[]string{"--insecure"}, "", http.StatusOK, http.StatusOK},
	} {
		_, _, line := startProcessWith(t, []string{"REPLAY_LINK_TOKEN=" + linkToken}, 1, append([]string{"vllm", "--port=0", "--host=0.0.0.0"}, test.args...)...)
		var at struct{ HTTP string }
		if err := json.Unmarshal([]byte(line), &at); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for path, want := range map[string]int{"/v1/models": test.status, "/health": test.probe} {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.HTTP+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if test.token != "" {
				q.Header.Set("Authorization", "Bearer "+test.token)
			}
			r, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			if r.Body.Close(); r.StatusCode != want {
				t.Errorf("%v, token %q: %s is answered with %d, want %d", test.args, test.token, path, r.StatusCode, want)
			}
		}
	}
}

// listenersOf returns the listening addresses of a process, in the kernel's hexadecimal format.
func listenersOf(t *testing.T, pid int) []string {
	t.Helper()
	if _, err := os.Stat("/proc/self/net/tcp"); err != nil {
		t.Skip("skipped: no /proc/self/net/tcp")
	}
	open, err := exec.Command("sh", "-c", fmt.Sprintf(`ls -l /proc/%d/fd 2>/dev/null | sed -n 's/.*socket:\[\([0-9]*\)\].*/\1/p' | while read i; do awk -v i=$i '$4=="0A" && $10==i {print $2}' /proc/%d/net/tcp /proc/%d/net/tcp6; done`, pid, pid, pid)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(open))
}

// By default, all listeners of every command are on loopback.
func TestListensOnLoopback(t *testing.T) {
	t.Parallel()
	c := newCompound(t)
	prefill := c.start("worker", "--system-port=0", "--grace=0s", "--request-plane=tcp", "--disaggregation-mode=prefill")
	if !strings.HasPrefix(prefill.System, "127.0.0.1:") {
		t.Errorf("system at %s", prefill.System)
	}
	var out, errs bytes.Buffer
	if code := run(append([]string{"stack", "instances", "dynamo.prefill.generate", "--wait", "1m"}, c.flags()...), strings.NewReader(""), &out, &errs); code != cli.ExitDone || !strings.Contains(out.String(), `127.0.0.1:`) {
		t.Errorf("exit %d: %s %s", code, &out, &errs)
	}
	pids := map[string]int{"worker": prefill.cmd.Process.Pid, "frontend": c.front().cmd.Process.Pid}
	for name, args := range map[string][]string{
		"vllm":     {"vllm", "--port=0", "--kv-events-config", `{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0"}`},
		"sglang":   {"sglang", "--port=0"},
		"record":   {"record", "--listen=127.0.0.1:0", "--upstream=http://127.0.0.1:1", "--out=" + t.TempDir() + "/run"},
		"stack up": {"stack", "up"},
	} {
		cmd, _, _ := startProcess(t, 1, args...)
		pids[name] = cmd.Process.Pid
	}
	// worker: system, requests, rendezvous, KV events and their replay; frontend: HTTP only before its first call;
	// stack: etcd for clients and peers, and NATS
	for name, want := range map[string]int{"worker": 5, "frontend": 1, "vllm": 3, "sglang": 1, "record": 1, "stack up": 3} {
		all := listenersOf(t, pids[name])
		if len(all) != want {
			t.Errorf("%s has %d listeners, want %d", name, len(all), want)
		}
		for _, at := range all {
			if !strings.HasPrefix(at, "0100007F:") {
				t.Errorf("%s listens at %s (hexadecimal), want 127.0.0.1", name, at)
			}
		}
	}
}

// A request with an address that --allow-dial forbids is refused at once with one line.
func TestAllowDial(t *testing.T) {
	host := listen.RoutableAddress()
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
	if took := time.Since(from); took > 8*time.Second { // the limit of call-home is 10 s
		t.Errorf("refused after %v", took)
	}
	if n := m.metric("dynamo_component_errors_total", `error_type="invalid_message"`); n != 1 {
		t.Errorf("counted %v times", n)
	}
}
