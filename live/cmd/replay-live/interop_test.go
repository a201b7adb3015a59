package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cmd/replay-live/serve"
)

// The peer is the published Python package ai-dynamo. The interop tests require this package (make interop).
var peerPython = flag.String("peer", "", "`python` that has the package ai-dynamo")

// peers is a process of replay-live stack up, and the processes of this program and of the package around it.
type peers struct {
	*compound
	at serve.StackAddresses
}

// newPeers starts etcd and NATS as a separate process.
func newPeers(t *testing.T) *peers {
	t.Helper()
	p := &peers{compound: &compound{t: t}}
	cmd := exec.Command(os.Args[0], "stack", "up")
	cmd.Env, cmd.Stderr = append(os.Environ(), asProgram+"=1"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("stack up: %v", err)
		}
	})
	if err := json.NewDecoder(out).Decode(&p.at); err != nil {
		t.Fatalf("stack up: %v", err)
	}
	p.env = []string{"ETCD_ENDPOINTS=" + p.at.Etcd, "NATS_SERVER=" + p.at.NATS}
	return p
}

// startPeer runs Python with the package until the test ends.
func (p *peers) startPeer(env []string, args ...string) {
	p.t.Helper()
	cmd := exec.Command(*peerPython, args...)
	cmd.Env = append(append(append(os.Environ(), p.env...), "DYN_LOG=error"), env...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the process was killed
	})
}

// startPeerFront starts the package's frontend, waits until it lists the model, and returns its URL.
func (p *peers) startPeerFront(plane, mode, model string, env ...string) string {
	p.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close() // the package accepts a port, but no listener
	p.startPeer(env, "-m", "dynamo.frontend", "--http-host=127.0.0.1", fmt.Sprintf("--http-port=%d", port), "--router-mode="+mode, "--request-plane="+plane)
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	poll.Until(p.t, "the peer's list of models", func() bool {
		r, err := http.Get(url + "/v1/models")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return err == nil && strings.Contains(string(b), fmt.Sprintf("%q", model))
	})
	return url
}

// needPeer skips a test unless the peer has the module.
func needPeer(t *testing.T, module string) {
	t.Helper()
	if *peerPython == "" {
		t.Skip("skipped: no peer, which -peer names (make interop)")
	}
	optional.Program(t, *peerPython, "-c", "import "+module)
}

// peerModel returns a directory with the model files that the package requires.
func peerModel(t *testing.T) string {
	t.Helper()
	tokens, err := os.ReadFile("../../../loadgen/tokenizer/testdata/gpt2.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tokenizer.json":        string(tokens),
		"config.json":           `{"architectures":["LlamaForCausalLM"],"model_type":"llama","max_position_embeddings":8192,"vocab_size":50257,"eos_token_id":1,"bos_token_id":2}`,
		"tokenizer_config.json": `{"tokenizer_class":"PreTrainedTokenizerFast","chat_template":"{% for m in messages %}{{ m['content'] }} {% endfor %}"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// completeBoth requests three tokens each for a prompt and for a chat, and checks that they arrive.
func completeBoth(t *testing.T, url, model string) {
	t.Helper()
	for path, prompt := range map[string]string{"completions": `"prompt":"It was a bright morning"`, "chat/completions": `"messages":[{"role":"user","content":"Good morning"}]`} {
		var status int
		var body string
		poll.Until(t, "an answer of "+model, func() bool {
			status, body = postJSON(t, url+"/v1/"+path, fmt.Sprintf(`{"model":%q,"max_tokens":3,%s}`, model, prompt))
			return status != http.StatusNotFound && status != http.StatusServiceUnavailable
		})
		if status != http.StatusOK || !strings.Contains(body, `"completion_tokens":3`) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// The package's frontend lists and calls the workers of this program by their model cards.
func TestInteropPeerFrontend(t *testing.T) {
	needPeer(t, "dynamo.frontend")
	for _, plane := range []string{"nats", "tcp"} {
		for _, mode := range []string{"round-robin", "kv"} {
			t.Run(plane+" "+mode, func(t *testing.T) { peerFrontend(t, plane, mode) })
		}
	}
}

func peerFrontend(t *testing.T, plane, mode string) {
	t.Helper()
	c := newPeers(t)
	model := peerModel(t)
	workers := []*member{
		c.worker("--speedup-ratio=20", "--model-name=ours", "--request-plane="+plane, "--model-path="+model),
		c.worker("--speedup-ratio=20", "--model-name=ours", "--request-plane="+plane, "--model-path="+model),
	}
	url := c.startPeerFront(plane, mode, "ours")
	for range 4 {
		completeBoth(t, url, "ours")
	}
	for i, w := range workers {
		if n := w.metric("dynamo_component_requests_total", ""); mode == "round-robin" && n == 0 {
			t.Errorf("worker %d was asked nothing", i)
		}
	}
}

// The package's frontend sends requests through the prefill and decode workers of this program: first prefill, then
// decode, or with bootstrap to both at once.
func TestInteropPeerPrefillDecode(t *testing.T) {
	needPeer(t, "dynamo.frontend")
	for _, test := range []struct{ plane, mode, bootstrap string }{{"nats", "round-robin", "false"}, {"tcp", "round-robin", "true"}, {"nats", "kv", "true"}, {"tcp", "kv", "false"}} {
		t.Run(test.plane+" "+test.mode+" bootstrap="+test.bootstrap, func(t *testing.T) {
			c := newPeers(t)
			common := []string{"--speedup-ratio=20", "--model-name=ours", "--request-plane=" + test.plane, "--model-path=" + peerModel(t)}
			prefill := c.worker(append(common, "--disaggregation-mode=prefill", "--bootstrap="+test.bootstrap)...)
			decode := c.worker(append(common, "--disaggregation-mode=decode")...)
			url := c.startPeerFront(test.plane, test.mode, "ours")
			// Until the frontend has found the prefill worker, it calls the decode worker alone, which refuses.
			poll.Until(t, "an answer through both", func() bool {
				status, _ := postJSON(t, url+"/v1/completions", `{"model":"ours","max_tokens":1,"prompt":"It was"}`)
				return status == http.StatusOK
			})
			before := [2]float64{prefill.metric("dynamo_component_requests_total", ""), decode.metric("dynamo_component_requests_total", "")}
			completeBoth(t, url, "ours")
			for i, w := range []*member{prefill, decode} {
				if n := w.metric("dynamo_component_requests_total", "") - before[i]; n != 2 {
					t.Errorf("%s: asked %v times, want 2", []string{"prefill", "decode"}[i], n)
				}
			}
		})
	}
}

// The frontend of this program lists and calls a worker of the package that has registered its model.
func TestInteropPeerModel(t *testing.T) {
	needPeer(t, "dynamo.llm")
	for _, plane := range []string{"nats", "tcp"} {
		t.Run(plane, func(t *testing.T) {
			c := newPeers(t)
			c.startPeer(nil, "testdata/peer/model.py", plane, peerModel(t), "theirs")
			front := c.front()
			completeBoth(t, front.HTTP, "theirs")
		})
	}
}
