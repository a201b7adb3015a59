package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/replay-llm/replay/internal/certtest"
)

// startFleet starts a process with the given number of servers, and returns it and their URLs.
func startFleet(t *testing.T, size int, args ...string) (cmd *exec.Cmd, urls []string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], append([]string{"vllm"}, args...)...)
	cmd.Env, cmd.Stderr = append(os.Environ(), asProgram+"=1"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	for len(urls) < size && lines.Scan() {
		var line struct{ HTTP, Model string }
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Model != "tiny" {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		urls = append(urls, line.HTTP)
	}
	return cmd, urls
}

// freePorts returns the first of three consecutive ports without listeners.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		first, free := l.Addr().(*net.TCPAddr).Port, true
		l.Close()
		for port := first; port < first+3; port++ {
			one, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				one.Close()
			}
			free = free && err == nil
		}
		if free {
			return first
		}
	}
	t.Fatal("no three ports in a row are free")
	return 0
}

// A fleet serves independent engines at consecutive ports, answers, and exits with code 0 after a signal.
func TestVLLMFleet(t *testing.T) {
	first := freePorts(t)
	cmd, urls := startFleet(t, 3, "--port="+strconv.Itoa(first), "--fleet=3", "--served-model-name=tiny", "--speedup-ratio=20")
	for i, url := range urls {
		if want := "http://127.0.0.1:" + strconv.Itoa(first+i); url != want {
			t.Errorf("server %d listens at %s, want %s", i, url, want)
		}
		if status, body := postJSON(t, url+"/v1/completions", `{"prompt":[1,2,3],"max_tokens":4}`); status != http.StatusOK || !strings.Contains(body, `"completion_tokens":4`) {
			t.Errorf("%d %s", status, body)
		}
		if n := scrapeText(t, url, `vllm:generation_tokens_total{engine="0",model_name="tiny"} `); n != "4" {
			t.Errorf("server %d has generated %s tokens, want 4", i, n)
		}
	}
	// A second fleet that needs one of these ports ends at once with an error.
	again := exec.Command(os.Args[0], "vllm", "--port="+strconv.Itoa(first+2), "--fleet=2")
	again.Env = append(os.Environ(), asProgram+"=1")
	if out, err := again.CombinedOutput(); err == nil || !strings.Contains(string(out), "address already in use") {
		t.Errorf("%v: %s", err, out)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// scrapeText returns the text after a prefix in the metrics of a server.
func scrapeText(t *testing.T, url, prefix string) string {
	t.Helper()
	r, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			return value
		}
	}
	return ""
}

// The command line of vllm serve starts a server with all model names, HTTPS and the API key. Environment variables
// set other flags.
func TestVLLMServe(t *testing.T) {
	cert, key := certtest.NewAuthority(t).Issue(t, "replay", net.IPv4(127, 0, 0, 1))
	t.Setenv("REPLAY_SPEEDUP_RATIO", "20")
	cmd, urls := startFleet(t, 1, "serve", "meta-llama/Llama-3.1-8B-Instruct", "--tensor-parallel-size", "2", "--port", "0", "--served-model-name", "tiny", "small",
		"--enforce-eager", "--trust-remote-code", "--ssl-keyfile", key, "--ssl-certfile", cert, "--api-key", "sesame")
	if !strings.HasPrefix(urls[0], "https://127.0.0.1:") {
		t.Fatalf("it listens at %s", urls[0])
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	ask := func(key string) int {
		q, _ := http.NewRequest(http.MethodPost, urls[0]+"/v1/completions", strings.NewReader(`{"model":"small","prompt":[1,2,3],"max_tokens":4}`))
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Authorization", "Bearer "+key)
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode
	}
	if with, without := ask("sesame"), ask(""); with != http.StatusOK || without != http.StatusUnauthorized {
		t.Errorf("status %d with the key and %d without", with, without)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
