package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/json"
)

// gateway is a program that forwards requests to servers.
type gateway struct {
	name    string
	program string // path in the directory of the virtual environments, or a name on the PATH
	// start returns the arguments of the program. The program listens at port of 127.0.0.1 and may write to dir.
	start func(dir string, port int, servers []string) ([]string, error)
}

// listGateways returns the gateways that forward sends requests through.
func listGateways() []gateway {
	router := func(before ...string) func(string, int, []string) ([]string, error) {
		return func(_ string, port int, servers []string) ([]string, error) {
			metrics, err := freePort()
			args := append(before, "--policy=round_robin", "--host=127.0.0.1", fmt.Sprintf("--port=%d", port), fmt.Sprintf("--prometheus-port=%d", metrics), "--worker-urls")
			return append(args, servers...), err
		}
	}
	return []gateway{
		{"vllm-router", "vllm-router/bin/vllm-router", router()},
		{"sglang-router", "sglang-router/bin/sglang-router", router("launch")},
		{"smg", "smg/bin/smg", router("launch")},
		{"nginx", "nginx", startNginx},
		{"haproxy", "haproxy", startHAProxy},
		{"litellm", "litellm/bin/litellm", startLiteLLM},
	}
}

// find returns the path of the program, or an error if it is not installed.
func (g *gateway) find(programs string) (string, error) {
	if strings.Contains(g.program, "/") {
		path := filepath.Join(programs, g.program)
		_, err := os.Stat(path)
		return path, err
	}
	return exec.LookPath(g.program)
}

func startNginx(dir string, port int, servers []string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "daemon off;\nmaster_process off;\npid %[1]s/pid;\nerror_log stderr;\nevents {}\nhttp {\n  access_log off;\n", dir)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&b, "  %s_temp_path %s/%[1]s;\n", kind, dir)
	}
	b.WriteString("  upstream servers {\n")
	for _, s := range servers {
		fmt.Fprintf(&b, "    server %s;\n", strings.TrimPrefix(s, "http://"))
	}
	fmt.Fprintf(&b, "    keepalive 16;\n  }\n  server {\n    listen 127.0.0.1:%d;\n    location / {\n      proxy_pass http://servers;\n"+
		"      proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_buffering off;\n    }\n  }\n}\n", port)
	return writeConfig(dir, b.String(), "-p", dir, "-c")
}

func startHAProxy(dir string, port int, servers []string) ([]string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "defaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"+
		"frontend requests\n  bind 127.0.0.1:%d\n  default_backend servers\nbackend servers\n  balance leastconn\n", port)
	for i, s := range servers {
		fmt.Fprintf(&b, "  server s%d %s\n", i, strings.TrimPrefix(s, "http://"))
	}
	return writeConfig(dir, b.String(), "-db", "-f")
}

func startLiteLLM(dir string, port int, servers []string) ([]string, error) {
	var b strings.Builder
	b.WriteString("model_list:\n")
	for _, s := range servers {
		fmt.Fprintf(&b, "- {model_name: tiny, litellm_params: {model: openai/tiny, api_base: \"%s/v1\", api_key: none}}\n", s)
	}
	return writeConfig(dir, b.String(), "--host=127.0.0.1", fmt.Sprintf("--port=%d", port), "--config")
}

// writeConfig writes a configuration file, and returns args followed by the path of the file.
func writeConfig(dir, text string, args ...string) ([]string, error) {
	path := filepath.Join(dir, "config.yaml")
	return append(args, path), os.WriteFile(path, []byte(text), 0o600)
}

// forward sends n requests through the gateway to two servers, and returns the number of failed requests.
func (g *gateway) forward(program, live string, n int) (failed int, err error) {
	f := &fleet{}
	defer f.stop()
	servers, err := f.serve(live, "vllm", 2)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "gateway")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	urls := make([]string, len(servers))
	for i, s := range servers {
		urls[i] = s.String()
	}
	args, err := g.start(dir, port, urls)
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &f.log, &f.log
	cmd.Env = append(os.Environ(), "LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY=true")
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	f.stopWith(cmd)
	at := (&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "/v1/chat/completions"}).String()
	for begin := time.Now(); sendChat(at, false) != nil; time.Sleep(200 * time.Millisecond) {
		if time.Since(begin) > startTime {
			return 0, fmt.Errorf("%w: %s", sendChat(at, false), f.log.String())
		}
	}
	return countFailures(at, n), nil
}

// countFailures sends n chats, 16 at a time and every second one streamed, and returns the number of failures.
func countFailures(at string, n int) int {
	var next, failed atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := sendChat(at, i%2 == 0); err != nil {
					failed.Add(1)
					fmt.Fprintln(os.Stderr, "gateways:", err)
				}
			}
		})
	}
	group.Wait()
	return int(failed.Load())
}

// sendChat sends a chat completion. sendChat returns an error unless the answer is complete.
func sendChat(at string, stream bool) error {
	body, err := json.Marshal(map[string]any{"model": "tiny", "messages": []any{map[string]string{"role": "user", "content": "once upon a time"}}, "max_tokens": 8, "stream": stream})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer none")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	end := `"usage"`
	if stream {
		end = "data: [DONE]"
	}
	if err == nil && (answer.StatusCode != http.StatusOK || !bytes.Contains(text, []byte(end))) {
		err = fmt.Errorf("status %d, stream %t: %.300s", answer.StatusCode, stream, text)
	}
	return err
}
