package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/live/cmd/replay-live/serve"
)

// secret is a password that occurs in no other text.
const secret = "Xq7-n0b0dy-Prints-th1s"

// speech is the output of programs.
type speech struct {
	t    *testing.T
	said []string
}

// check fails the test if text contains the password.
func (s *speech) check(what, text string) {
	s.t.Helper()
	s.said = append(s.said, text)
	if strings.Contains(text, secret) {
		s.t.Errorf("%s holds the password: %s", what, text)
	}
}

// run runs a program to its end, and checks its output.
func (s *speech) run(env []string, args ...string) (code int, said string) {
	s.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), asProgram+"=1"), env...)
	late := time.AfterFunc(clusterLimit, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	out, _ := cmd.CombinedOutput()
	s.check(strings.ReplaceAll(strings.Join(args, " "), secret, "…"), string(out))
	return cmd.ProcessState.ExitCode(), string(out)
}

// commandLines checks the command lines of processes in /proc.
func (s *speech) commandLines(pids ...string) {
	for _, pid := range pids {
		text, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		s.check("the command line of a process", string(text))
	}
}

// secretServers starts etcd and NATS with a password. secretServers returns an environment with the password in URLs,
// and the plain addresses.
func secretServers(t *testing.T, dir string) (env []string, at serve.StackAddresses, end func()) {
	t.Helper()
	cmd, errs, line := startProcessWith(t, []string{"NATS_AUTH_PASSWORD=" + secret}, 1, "stack", "up", "--nats-username", "me", "--data-dir", dir)
	if err := json.Unmarshal([]byte(line), &at); err != nil {
		t.Fatal(err)
	}
	withUser := func(url string) string { return strings.Replace(url, "://", "://me:"+secret+"@", 1) }
	env = []string{
		"ETCD_ENDPOINTS=" + withUser(at.Etcd), "NATS_SERVER=" + withUser(at.NATS),
		"OTEL_EXPORT_ENABLED=1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=" + withUser("http://127.0.0.1:1"),
	}
	return env, at, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if strings.Contains(line+errs.String(), secret) {
			t.Errorf("servers say %s%s", line, errs)
		}
	}
}

// Servers with a password accept only clients that have it. The URLs in environment variables may contain the
// password, and no process prints the password.
func TestPasswordIsAskedForAndNeverSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env, at, end := secretServers(t, dir)
	c, s := &compound{t: t, env: env}, &speech{t: t}
	worker, front := c.worker("--precise=timer"), c.front()
	awaitModel(t, front, "mocker-model")
	if code, body := complete(t, front, "mocker-model"); code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	for _, m := range []*member{worker, front} {
		s.commandLines(strconv.Itoa(m.cmd.Process.Pid))
		r, err := http.Get(m.base() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		_, _ = all.ReadFrom(r.Body)
		r.Body.Close()
		s.check("/metrics", all.String())
	}
	if code, said := s.run(env, "stack", "instances", "--wait", "10s", "dynamo.backend.generate"); code != cli.ExitDone || !strings.Contains(said, "backend") {
		t.Errorf("with the password: exit %d: %s", code, said)
	}
	trace := shortTrace(t, "short.jsonl", 2)
	if code, said := s.run(env, "trace", trace, "--mode", "cluster", "--spawn", "1", "--speedup-ratio", "20", "--output", "json"); code != cli.ExitDone {
		t.Errorf("workers that are started: exit %d: %s", code, said)
	}
	plain := []string{"--etcd", at.Etcd, "--nats", at.NATS, "--connect-timeout", "300ms"}
	for name, test := range map[string]struct {
		env, args []string
		want      string
	}{
		"nobody at etcd":       {[]string{"NATS_AUTH_USERNAME=me", "NATS_AUTH_PASSWORD=" + secret}, plain, "etcd at"},
		"nobody at NATS":       {[]string{"ETCD_AUTH_USERNAME=me", "ETCD_AUTH_PASSWORD=" + secret}, plain, "nats at"},
		"wrong password":       {[]string{env[0] + "x", "NATS_SERVER=nats://me:" + secret + "wrong@" + strings.TrimPrefix(at.NATS, "nats://")}, []string{"--connect-timeout", "300ms"}, "nats at"},
		"refused connection":   {[]string{env[0], "NATS_SERVER=nats://me:" + secret + "@127.0.0.1:1"}, []string{"--connect-timeout", "300ms"}, "nats at"},
		"no URL":               {[]string{env[0], "NATS_SERVER=nats://me:" + secret + "%@ 127.0.0.1:1"}, nil, "URL of NATS"},
		"a bad port":           {[]string{"NATS_SERVER=nats://me:" + secret + "@127.0.0.1:http"}, []string{"--connect-timeout", "300ms"}, "nats"},
		"in a flag for NATS":   {nil, []string{"--nats", "nats://me:" + secret + "@127.0.0.1:1"}, "use the URL with its password in $NATS_SERVER"},
		"in a flag for etcd":   {nil, []string{"--etcd", "http://me:" + secret + "@127.0.0.1:1"}, "use the URL with its password in $ETCD_ENDPOINTS"},
		"as a token in a flag": {nil, []string{"--nats", "nats://" + secret + "@127.0.0.1:1"}, "use the URL"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, said := s.run(test.env, append([]string{"worker"}, test.args...)...); code == cli.ExitDone || !strings.Contains(said, test.want) || strings.Count(said, "\n") > 2 {
				t.Errorf("exit %d: %s", code, said)
			}
		})
	}
	for _, args := range [][]string{
		{"drive", trace, "--url", "http://me:" + secret + "@127.0.0.1:1", "--out", t.TempDir() + "/x"},
		{"drive", trace, "--url", "ftp://me:" + secret + "@127.0.0.1:1", "--out", t.TempDir() + "/x"},
		{"record", "--upstream", "ftp://me:" + secret + "@127.0.0.1:1", "--out", t.TempDir() + "/x"},
	} {
		if code, said := s.run(nil, args...); code == cli.ExitDone {
			t.Errorf("%s: exit %d: %s", args[0], code, said)
		}
	}
	worker.end()
	front.end()
	s.check("a worker", worker.err.String())
	s.check("a frontend", front.err.String())
	end()
	// The data can be used only with this password.
	for _, one := range []struct{ env, args []string }{{nil, nil}, {[]string{"NATS_AUTH_PASSWORD=another one"}, []string{"--nats-username", "me"}}} {
		if code, said := s.run(one.env, append([]string{"stack", "up", "--data-dir", dir}, one.args...)...); code != cli.ExitRefused || !strings.Contains(said, "the data is that of servers ") {
			t.Errorf("%v: exit %d: %s", one.args, code, said)
		}
	}
	again, _, endAgain := secretServers(t, dir)
	if code, said := s.run(again, "stack", "instances", "dynamo.backend.generate"); code != cli.ExitRefused || !strings.Contains(said, "none in") {
		t.Errorf("after another start: exit %d: %s", code, said)
	}
	endAgain()
}

// The command lines of workers that a replay starts contain no passwords.
func TestSpawnedCommandLines(t *testing.T) {
	env, _, end := secretServers(t, t.TempDir())
	defer end()
	s := &speech{t: t}
	t.Setenv(asProgram, "1")
	for _, one := range env {
		name, value, _ := strings.Cut(one, "=")
		t.Setenv(name, value)
	}
	done, seen := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		for {
			pids := childProcesses()
			s.commandLines(pids...)
			n = max(n, len(pids))
			select {
			case <-done:
				seen <- n
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	r := replayHere(t, "trace", shortTrace(t, "short.jsonl", 10), "--mode", "cluster", "--spawn", "1", "--speedup-ratio", "20")
	close(done)
	if n := <-seen; r.code != cli.ExitDone || n < 2 {
		t.Errorf("exit %d with %d processes seen, want the servers and a worker: %s", r.code, n, r.errs)
	}
	s.check("a replay", r.errs)
}
