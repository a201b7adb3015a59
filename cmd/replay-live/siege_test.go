package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/drt/wire"
)

// Nothing that anybody sends to any port of a fleet ends a process, hangs a connection or leaves anything
// behind: no goroutine, file, memory or metric; and good requests are answered as before.
func TestMalformedInputs(t *testing.T) {
	s := startSiege(t)
	t.Cleanup(func() { s.home.Close() })
	s.checkAnswers()
	before := s.measure()
	var background, wg sync.WaitGroup
	background.Go(func() { s.answerCallers(&background) })
	var next atomic.Int64
	counts := make([]atomic.Int64, len(s.ports))
	from := time.Now()
	for range 24 {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(*malformedInputs); i = next.Add(1) - 1 {
				port := int(i) % len(s.ports)
				if err := s.ports[port].send(newMutator(*malformedSeed, uint64(i))); err != nil {
					t.Errorf("input %d of seed %d, %s: %v", i, *malformedSeed, s.ports[port].name, err)
				}
				counts[port].Add(1)
			}
		})
	}
	wg.Wait()
	s.home.Close()
	background.Wait()
	said := make([]string, len(s.ports))
	for i, p := range s.ports {
		said[i] = fmt.Sprintf("%s %d", p.name, counts[i].Load())
	}
	t.Logf("%d inputs in %.1f s, %d hung, %d requests to workers that answer wrongly: %s", *malformedInputs, time.Since(from).Seconds(), s.hung.Load(), s.rogue.Load(), strings.Join(said, ", "))
	if n := s.rogue.Load(); n < int64(*malformedInputs)/50 {
		t.Errorf("%d requests to workers that answer wrongly, want more", n)
	}
	s.checkAnswers()
	s.checkLeft(before)
}

// startSiege starts the fleet, and lists its ports.
func startSiege(t *testing.T) *siege {
	port, err := strconv.Atoi(freePort(t, "127.0.0.1")) // of its choice, etcd's gateway does not find it
	if err != nil {
		t.Fatal(err)
	}
	s := &siege{t: t, c: newCompoundWith(t, stack.Options{EtcdPort: port}), members: map[string]*member{}}
	if s.home, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	meet, responses := freePort(t, "127.0.0.1"), freePort(t, "127.0.0.1")
	s.members["nats"] = s.c.worker("--speedup-ratio=100")
	s.members["tcp"] = s.c.worker("--speedup-ratio=100", "--request-plane=tcp", "--namespace=other", "--model-name=tcp-model")
	s.members["prefill"] = s.c.worker("--speedup-ratio=100", "--namespace=pair", "--model-name=pair-model", "--disaggregation-mode=prefill", "--bootstrap-port="+meet)
	s.members["decode"] = s.c.worker("--speedup-ratio=100", "--namespace=pair", "--model-name=pair-model", "--disaggregation-mode=decode")
	s.members["frontend"] = s.c.front("--router=kv", "--response-port="+responses)
	s.members["vllm"] = (&compound{t: t}).start("vllm", "--port=0", "--speedup-ratio=100")
	completion := `{"model":"mocker-model","prompt":[1,2,3],"max_tokens":3,"stream":false,"temperature":0.5,"stop":["a"],"n":1,"seed":7}`
	chat := `{"model":"tcp-model","messages":[{"role":"user","content":"hello"}],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`
	pair := `{"model":"pair-model","prompt":"hello there","max_tokens":2,"logprobs":1,"echo":true}`
	s.addHTTP("frontend", s.members["frontend"].HTTP, "POST /v1/completions\n"+completion, "POST /v1/chat/completions\n"+chat, "POST /v1/completions\n"+pair,
		"GET /v1/models\n", "GET /v1/models/mocker-model\n", "GET /health\n", "GET /metrics\n")
	s.addHTTP("system", "http://"+s.members["prefill"].System, "GET /metrics\n", "GET /health\n", "GET /live\n", "POST /engine/clear_kv_blocks\n{}", "POST /engine/x\n{\"a\":1}")
	s.addHTTP("vllm", s.members["vllm"].HTTP, "POST /v1/completions\n"+completion, "POST /v1/chat/completions\n"+strings.Replace(chat, "tcp", "mocker", 1),
		"POST /tokenize\n"+`{"model":"mocker-model","prompt":"hello"}`, "POST /detokenize\n"+`{"tokens":[1,2]}`, "GET /metrics\n")
	s.addRequests()
	hello := wire.NewHello("6e8bc430-9c3a-11d9-9669-0800200c9a66").Append(nil)
	stream := append(hello, wire.NewPrologue(wire.Prologue{}).Append(nil)...)
	s.addRaw("response streams", "127.0.0.1:"+responses, 0, hello, append(stream, wire.NewFinal().Append(nil)...))
	s.addRaw("rendezvous", "127.0.0.1:"+meet, 0, binary.LittleEndian.AppendUint64(nil, 1), make([]byte, 8), make([]byte, 64))
	s.addEvents(s.members["nats"].KVEvents, s.members["nats"].KVReplay)
	for _, model := range []string{"mocker-model", "tcp-model", "pair-model"} {
		awaitModel(t, s.members["frontend"], model)
	}
	s.addDiscovery()
	s.addRogue()
	return s
}

// addRogue adds workers that take requests of the frontend and answer with what they should not. Each is an
// instance that did not exist before, of one of eight models, since one that has failed is left alone for some time.
func (s *siege) addRogue() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.answerAsRogue(c)
		}
	}()
	s.ports = append(s.ports, siegePort{"answers of workers", func(m *mutator) error {
		id := m.rng.Uint64() >> 1
		name, reached := fmt.Sprintf("rogue%d", id%8), s.rogue.Load()
		instance := fmt.Sprintf(`{"type":"Endpoint","namespace":%q,"component":"backend","endpoint":"generate","instance_id":%d,"transport":{"tcp":"%s/%x/generate"}}`, name, id, l.Addr(), id)
		card := fmt.Sprintf(`{"type":"Model","namespace":%q,"component":"backend","endpoint":"generate","instance_id":%d,"card_json":{"name":%q,"model_type":["chat","completions"],"worker_type":"agg","context_length":100,"kv_cache_block_size":16}}`, name, id, name)
		keys := map[string]string{fmt.Sprintf("v1/instances/%s/backend/generate/%x", name, id): instance, fmt.Sprintf("v1/mdc/%s/backend/generate/%x", name, id): card}
		for key, value := range keys {
			if _, err := s.etcd("put", map[string]string{"key": key, "value": value}); err != nil {
				return err
			}
		}
		defer func() {
			for key := range keys {
				_, _ = s.etcd("deleterange", map[string]string{"key": key})
			}
		}()
		client := http.Client{Timeout: 30 * time.Second}
		for range 100 { // the frontend hears of it in a moment
			r, err := client.Post(s.members["frontend"].HTTP+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"model":%q,"prompt":"hello","max_tokens":3}`, name)))
			if err != nil {
				s.hung.Add(1)
				return fmt.Errorf("the frontend does not answer: %w", err)
			}
			_, err = io.Copy(io.Discard, r.Body)
			r.Body.Close()
			if err != nil || s.rogue.Load() > reached {
				return err
			}
			time.Sleep(2 * time.Millisecond)
		}
		return nil
	}})
}

// answerAsRogue takes a request, and calls home with a malformed response.
func (s *siege) answerAsRogue(c net.Conn) {
	defer c.Close()
	var b []byte
	for buffer := make([]byte, 1<<14); len(b) < 1<<17; {
		n, err := c.Read(buffer)
		if err != nil {
			return
		}
		b = append(b, buffer[:n]...)
		path := int(binary.BigEndian.Uint16(append(b, 0, 0)[:2])) + 2
		if len(b) < path+2 {
			continue
		}
		header := int(binary.BigEndian.Uint16(b[path:])) + path + 2
		if len(b) < header+4 || len(b) < header+4+int(binary.BigEndian.Uint32(b[header:])) {
			continue
		}
		f, err := wire.Decode(b[header+4:], 0)
		if err != nil {
			return
		}
		_, home, err := wire.ParseRequest(f)
		if err != nil {
			return
		}
		s.rogue.Add(1)
		_, _ = c.Write(make([]byte, 4))
		callAsRogue(home, newMutator(*malformedSeed, uint64(len(home.Subject))<<32+uint64(home.Subject[0])<<8+uint64(home.Subject[1])))
		return
	}
}

func callAsRogue(home wire.CallHome, m *mutator) {
	c, err := net.Dial("tcp", home.Address)
	if err != nil {
		return
	}
	defer c.Close()
	stream := wire.NewHello(home.Subject).Append(nil)
	parts := [][]byte{[]byte(`{"token_ids":[1],"index":0}`), []byte(`{"token_ids":[2,3],"finish_reason":"stop","completion_usage":{"prompt_tokens":1,"completion_tokens":3}}`)}
	prologue := wire.NewPrologue(wire.Prologue{})
	if m.rng.IntN(4) == 0 {
		prologue.Header = m.mutate(prologue.Header)
	}
	rest := prologue.Append(nil)
	for _, part := range parts {
		item := wire.NewPart(json.RawMessage(part))
		item.Body = m.mutate(item.Body)
		rest = item.Append(rest)
	}
	rest = wire.NewFinal().Append(rest)
	if m.rng.IntN(2) == 0 {
		rest = m.mutate(rest)
	}
	_, _ = c.Write(append(stream, rest...))
	_ = c.(*net.TCPConn).CloseWrite()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.Copy(io.Discard, c)
}

// checkAnswers asks every model and server for an answer.
func (s *siege) checkAnswers() {
	s.t.Helper()
	for model, m := range map[string]*member{"tcp-model": s.members["frontend"], "pair-model": s.members["frontend"]} {
		until(s.t, model+" answers", func() bool { code, _ := complete(s.t, m, model); return code == http.StatusOK })
	}
	for _, name := range []string{"frontend", "vllm"} {
		var body string
		until(s.t, name+" answers", func() (ok bool) {
			var code int
			code, body = complete(s.t, s.members[name], "mocker-model")
			return code == http.StatusOK
		})
		if !strings.Contains(body, `"completion_tokens":2`) {
			s.t.Errorf("%s: %s", name, body)
		}
	}
}

// weight is what a process holds.
type weight struct{ routines, files, series, kilobytes int }

// measure weighs each process, as far as it or the system tells.
func (s *siege) measure() map[string]weight {
	all := map[string]weight{}
	for name, m := range s.members {
		var w weight
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.cmd.Process.Pid))
		w.files = len(files)
		w.routines = int(m.metric("go_goroutines", ""))
		if r, err := http.Get(m.base() + "/metrics"); err == nil {
			text, _ := io.ReadAll(r.Body)
			r.Body.Close()
			w.series = bytes.Count(text, []byte("\n"))
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
		if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
			w.kilobytes, _ = strconv.Atoi(strings.Fields(rest)[0])
		}
		all[name] = w
	}
	return all
}

// checkLeft holds that every process lives, has said nothing of a panic, has not said much, and goes back to
// what it held before.
func (s *siege) checkLeft(before map[string]weight) {
	s.t.Helper()
	http.DefaultClient.CloseIdleConnections()
	for name, m := range s.members {
		select {
		case <-m.done:
			s.t.Errorf("%s has ended: %s", name, &m.err)
			continue
		default:
		}
		if said := m.err.String(); strings.Contains(said, "panic") || strings.Contains(said, "goroutine ") || len(said) > 1<<19 {
			s.t.Errorf("%s said, in %d bytes: %.4000s", name, len(said), said)
		}
	}
	const routines, files, series, kilobytes = 100, 40, 1200, 256 << 10
	for name, was := range before {
		var is weight
		from := time.Now()
		for is = s.measure()[name]; time.Since(from) < time.Minute && (is.routines > was.routines+routines || is.files > was.files+files); is = s.measure()[name] {
			time.Sleep(50 * time.Millisecond)
		}
		s.t.Logf("%s: %d goroutines, %d files, %d series, %d MiB; before %d, %d, %d, %d", name, is.routines, is.files, is.series, is.kilobytes>>10, was.routines, was.files, was.series, was.kilobytes>>10)
		if is.routines > was.routines+routines || is.files > was.files+files || is.series > was.series+series || is.kilobytes > was.kilobytes+kilobytes {
			s.t.Errorf("%s: holds %+v, and before %+v", name, is, was)
		}
	}
}
