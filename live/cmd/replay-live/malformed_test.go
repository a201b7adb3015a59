package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

var malformed = flag.Int("malformed", 600, "send `N` malformed requests to vllm, sglang and frontend, a third to each (make malformed: 50,000)")

// mangler generates malformed requests.
type mangler struct{ *rand.Rand }

// pick returns a random text of all.
func (m mangler) pick(all ...string) string { return all[m.IntN(len(all))] }

// mangle changes a text at one to three positions.
func (m mangler) mangle(text string) string {
	b := []byte(text)
	for range 1 + m.IntN(3) {
		at := m.IntN(len(b) + 1)
		switch m.IntN(5) {
		case 0: // truncate the message
			b = b[:at]
		case 1: // delete a part
			b = append(b[:at:at], b[min(len(b), at+1+m.IntN(20)):]...)
		case 2: // change a value
			b = append(append(b[:at:at], m.pick("null", "-1", "1e999", "18446744073709551616", `"\ud800"`, "{}", "[[[]]]", "true", strings.Repeat("[", 2000), "\xff\xfe", "\x00")...), b[at:]...)
		case 3: // change a byte
			if at < len(b) {
				b[at] = byte(m.IntN(256))
			}
		default: // duplicate a part
			b = append(b[:at:at], b[max(0, at-m.IntN(40)):]...)
		}
	}
	return string(b)
}

// body returns a request body that is usually malformed.
func (m mangler) body() string {
	return m.mangle(m.pick(
		`{"model":"tiny","prompt":[1,2,3],"max_tokens":2,"stream":true,"stop":["x"],"temperature":0.5,"logprobs":2}`,
		`{"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"a b"}]}],"max_tokens":2,"n":2}`,
		`{"text":"a b","sampling_params":{"max_new_tokens":2,"temperature":1},"stream":false,"rid":"x"}`,
		`{"input_ids":[[1],[2]],"sampling_params":{"max_new_tokens":1}}`, `{"model":"tiny","input":["a",[1]],"encoding_format":"base64","dimensions":8}`,
		`{"lora_name":"a","lora_path":"/x"}`, `{"prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object"}}}}`,
	))
}

// path returns the path of a server, or an invalid path.
func (m mangler) path() string {
	return m.pick("/v1/completions", "/v1/chat/completions", "/generate", "/v1/embeddings", "/v1/responses", "/tokenize", "/detokenize", "/v1/models", "/health", "/v1/completions/../x",
		"/"+strings.Repeat("a", m.IntN(300)), "/%zz", "/v1/load_lora_adapter")
}

// request returns the text of a request.
func (m mangler) request() string {
	body := m.body()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n%s\r\nConnection: close\r\n\r\n", m.pick("POST", "POST", "POST", "POST", "GET", "PUT", "\x01", "post"), m.path(),
		m.pick("application/json", "application/json", "application/json", "text/plain", "a;b;c"),
		m.pick(fmt.Sprint("Content-Length: ", len(body)), fmt.Sprint("Content-Length: ", len(body)), fmt.Sprint("Content-Length: ", len(body)), "Transfer-Encoding: chunked", "Content-Length: -1", "Content-Length: 5\r\nContent-Length: 6"))
	if m.IntN(4) == 0 {
		head = m.mangle(head)
	}
	return head + body
}

// statusOf returns the status of the answer to the text of a request, or 0 if the connection was closed without an
// answer.
func statusOf(at, text string) (int, error) {
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(clusterLimit))
	if _, err := io.WriteString(conn, text); err != nil {
		return 0, nil // the server refused the request before its end
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, nil
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode, nil
}

// Every server answers malformed requests with a client error or closes the connection. No request causes an internal
// error, ends a server or blocks later good requests.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	c := newCompound(t)
	c.worker("--model-name=tiny", "--speedup-ratio=1000", "--context-length=64")
	front := c.front()
	awaitModel(t, front, "tiny")
	servers := map[string]string{"frontend": front.HTTP}
	for _, name := range []string{"vllm", "sglang"} {
		args := []string{name, "--port=0", "--served-model-name=tiny", "--speedup-ratio=1000"}
		if name == "vllm" {
			args = append(args, "--enable-lora", "--max-model-len=64")
		} else {
			args = append(args, "--context-length=64")
		}
		_, errs, line := startProcess(t, 1, args...)
		var at struct{ HTTP string }
		if err := json.Unmarshal([]byte(line), &at); err != nil {
			t.Fatalf("%s: %v", errs, err)
		}
		servers[name] = at.HTTP
	}
	var all sync.WaitGroup
	for name, url := range servers { // the order is irrelevant
		counts := map[int]int{}
		all.Go(func() {
			m := mangler{rand.New(rand.NewPCG(1, 2))}
			for range *malformed / len(servers) {
				text := m.request()
				status, err := statusOf(strings.TrimPrefix(url, "http://"), text)
				if err != nil || status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported {
					t.Errorf("%s: status %d, %v of %.1000q", name, status, err, text)
				}
				counts[status]++
			}
			if status, text := postJSON(t, url+"/v1/completions", `{"model":"tiny","prompt":[1,2,3],"max_tokens":2}`); status != http.StatusOK {
				t.Errorf("%s: status %d of a good request afterwards: %s", name, status, text)
			}
			t.Logf("%s: %d malformed requests, by status (0: closed): %v", name, *malformed/len(servers), counts)
		})
	}
	all.Wait()
}
