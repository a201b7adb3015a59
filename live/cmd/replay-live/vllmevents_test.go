package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/kvevents"
)

// publishing is a vLLM server process that publishes KV events.
type publishing struct {
	HTTP     string `json:"http"`
	KVEvents string `json:"kv_events"`
	KVReplay string `json:"kv_replay"`
}

// startPublishing starts a server with the scheduler profile of a release.
func startPublishing(t *testing.T, profile string, env ...string) (p publishing) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "vllm", "--port=0", "--served-model-name=tiny", "--speedup-ratio=20", "--num-gpu-blocks=24",
		"--scheduler-profile="+profile, "--kv-events-config",
		`{"enable_kv_cache_events":true,"endpoint":"tcp://*:0","replay_endpoint":"tcp://*:0","topic":"kv@pod-%d@tiny"}`)
	cmd.Env, cmd.Stderr = append(append(os.Environ(), asProgram+"=1"), env...), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p)
	}
	if err != nil || p.KVEvents == "" || p.KVReplay == "" {
		t.Fatalf("%s: %v", line, err)
	}
	return p
}

// complete requests a completion for a prompt of consecutive tokens from first, and returns the prompt.
func (p publishing) complete(t *testing.T, first, tokens, answer int) (prompt []int) {
	t.Helper()
	for i := range tokens {
		prompt = append(prompt, first+i)
	}
	body, err := json.Marshal(map[string]any{"prompt": prompt, "max_tokens": answer, "ignore_eos": true})
	if err != nil {
		t.Fatal(err)
	}
	if status, text := postJSON(t, p.HTTP+"/v1/completions", string(body)); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	return prompt
}

// kv-tail reads the events of servers of both releases, live and replayed, with hashes as numbers and as bytes.
func TestVLLMServerEvents(t *testing.T) {
	for _, profile := range []string{"vllm-0.19", "vllm-0.33"} {
		for _, ints := range []string{"1", "0"} {
			p := startPublishing(t, profile, "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES="+ints)
			p.complete(t, 1, 40, 10)
			tail := exec.Command(os.Args[0], "kv-tail", p.KVEvents, "--replay", p.KVReplay, "--topic", "kv@pod-0@tiny", "--json", "--count", "4")
			var errs bytes.Buffer
			tail.Env, tail.Stderr = append(os.Environ(), asProgram+"=1"), &errs
			out, err := tail.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := tail.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			var got []string
			for lines.Scan() {
				var e struct {
					Sequence             int
					Source, Type, Parent string
					Blocks               []string
				}
				if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
					t.Fatalf("%s: %v", lines.Bytes(), err)
				}
				got = append(got, fmt.Sprintf("%d %s %s %d %t", e.Sequence, e.Source, e.Type, len(e.Blocks), e.Parent != ""))
				if len(got) == 2 { // the tail has connected
					p.complete(t, 500, 40, 10)
				}
			}
			if err := tail.Wait(); err != nil {
				t.Errorf("%v: %s", err, &errs)
			}
			want := []string{"0 replay BlockStored 2 false", "1 replay BlockStored 1 true", "2 live BlockStored 2 false", "3 live BlockStored 1 true"}
			if !slices.Equal(got, want) || !strings.Contains(errs.String(), "0 gaps, 0 not filled; 6 blocks cached") {
				t.Errorf("%s: %q, want %q; %s", profile, got, want, &errs)
			}
		}
	}
}

// pyEvents follows a publisher with vLLM's classes, and requests all batches when its input asks for them. For every
// batch, pyEvents prints the decoded batch, and whether vLLM's encoder produces the same bytes.
const pyEvents = `
import importlib.util, json, logging, sys, types
import msgspec, zmq
def stub(name, **names):
    m = types.ModuleType(name)
    m.__path__ = []
    m.__dict__.update(names)
    m.__getattr__ = lambda n: (_ for _ in ()).throw(AttributeError(n)) if n.startswith("__") else type(n, (), {})
    sys.modules[name] = m
for name in ("vllm", "vllm.config", "vllm.config.kv_events", "vllm.utils", "vllm.utils.network_utils", "vllm.v1", "vllm.v1.core"):
    stub(name)
stub("vllm.logger", init_logger=logging.getLogger)
stub("vllm.v1.core.kv_cache_utils", ExternalBlockHash=bytes | int)
spec = importlib.util.spec_from_file_location("kv_events", sys.argv[1])
k = importlib.util.module_from_spec(spec)
sys.modules["kv_events"] = k
spec.loader.exec_module(k)
decoder, encoder = msgspec.msgpack.Decoder(type=k.KVEventBatch), msgspec.msgpack.Encoder()
def show(what, topic, sequence, payload):
    b = decoder.decode(payload)
    events = [{"class": type(e).__name__, **{n: getattr(e, n) for n in e.__struct_fields__}} for e in b.events]
    text = lambda x: x.hex() if isinstance(x, bytes) else str(x)
    for e in events:
        e["block_hashes"] = [text(h) for h in e.get("block_hashes", [])]
        if e.get("parent_block_hash") is not None: e["parent_block_hash"] = text(e["parent_block_hash"])
    print(json.dumps({"what": what, "topic": topic.decode(), "sequence": int.from_bytes(sequence, "big"), "rank": b.data_parallel_rank,
        "same": encoder.encode(b) == payload, "payload": payload.hex(), "events": events}))
c = zmq.Context()
s = c.socket(zmq.SUB)
s.connect(sys.argv[2])
s.setsockopt_string(zmq.SUBSCRIBE, "kv@pod-0@tiny")
poll = zmq.Poller()
poll.register(s, zmq.POLLIN)
poll.register(sys.stdin, zmq.POLLIN)
print(json.dumps({"what": "ready"}))
while True:
    ready = dict(poll.poll())
    if s in ready: show("live", *s.recv_multipart())
    elif sys.stdin.fileno() in ready: break
r = c.socket(zmq.DEALER)
r.connect(sys.argv[3])
r.send_multipart([b"", (0).to_bytes(8, "big")])
while True:
    f = r.recv_multipart()
    if f[-2] == k.ZmqEventPublisher.END_SEQ:
        print(json.dumps({"what": "end", "topic": " ".join(x.hex() or "-" for x in f)}))
        break
    show("replay", f[1] if len(f) == 4 else b"", *f[-2:])
c.destroy(0)
`

// pyBatch is a batch that vLLM's classes have decoded.
type pyBatch struct {
	What, Topic, Payload string
	Sequence, Rank       int
	Same                 bool
	Events               []struct {
		Class  string
		Hashes []string `json:"block_hashes"`
		Parent string   `json:"parent_block_hash"`
		Tokens []int    `json:"token_ids"`
		Size   int      `json:"block_size"`
		Medium string
	}
}

// vLLM's classes from the releases' wheels decode the events of this program's servers, live and replayed. vLLM's
// encoder reproduces the same bytes. make kv-interop runs this test: REPLAY_PYTHON has pyzmq and msgspec,
// REPLAY_VLLM_EVENTS is a folder with kv_events.py of the releases.
func TestVLLMClasses(t *testing.T) {
	files := os.Getenv("REPLAY_VLLM_EVENTS")
	if files == "" {
		t.Skip("without vLLM's classes (make kv-interop)")
	}
	for _, c := range []struct{ release, profile, ints, end, topic string }{
		{"0.19.1", "vllm-0.19", "1", "- ffffffffffffffff -", ""},
		{"0.19.1", "vllm-0.19", "0", "- ffffffffffffffff -", ""},
		{"0.33.0", "vllm-0.33", "1", "- - ffffffffffffffff -", "kv@pod-0@tiny"},
		{"0.33.0", "vllm-0.33", "0", "- - ffffffffffffffff -", "kv@pod-0@tiny"},
	} {
		p := startPublishing(t, c.profile, "VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES="+c.ints)
		py := exec.CommandContext(t.Context(), os.Getenv("REPLAY_PYTHON"), "-u", "-c", pyEvents, files+"/"+c.release+".py", p.KVEvents, p.KVReplay)
		py.Stderr = os.Stderr
		in, err := py.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := py.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := py.Start(); err != nil {
			t.Fatal(err)
		}
		batches := make(chan pyBatch)
		go readBatches(out, batches)
		if b := <-batches; b.What != "ready" {
			t.Fatalf("%+v", b)
		}
		prompt, live, replayed := p.complete(t, 1, 300, 20), map[int]pyBatch{}, []pyBatch(nil)
		for n := 1000; len(live) < 8; n += 100 { // publish until the subscription has arrived and eight batches were received
			p.complete(t, n, 40, 10)
			for quiet := false; !quiet; {
				select {
				case b, ok := <-batches:
					if !ok {
						t.Fatal("the script has ended")
					}
					live[b.Sequence] = b
				case <-time.After(20 * time.Millisecond):
					quiet = true
				}
			}
		}
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		for b := range batches {
			switch b.What {
			case "live":
				live[b.Sequence] = b
			case "end":
				if b.Topic != c.end {
					t.Errorf("%s: the answer ends with %s, want %s", c.release, b.Topic, c.end)
				}
			default:
				replayed = append(replayed, b)
			}
		}
		if err := py.Wait(); err != nil {
			t.Fatal(err)
		}
		checkBatches(t, c.release, c.topic, replayed, live)
		if first := replayed[0].Events[0]; first.Parent != "" || first.Size != 16 || first.Medium != "GPU" || !slices.Equal(first.Tokens, prompt[:len(prompt)/16*16]) {
			t.Errorf("%s: the first event is %+v", c.release, first)
		}
		if n := len(replayed[0].Events[0].Hashes[0]); (n == 64) != (c.ints == "0") {
			t.Errorf("%s: a hash of %d digits", c.release, n)
		}
	}
}

// readBatches reads the batches that the script prints.
func readBatches(out io.Reader, to chan<- pyBatch) {
	defer close(to)
	for d := json.NewDecoder(out); ; {
		var b pyBatch
		if d.Decode(&b) != nil {
			return
		}
		to <- b
	}
}

// checkBatches checks an answer with all batches, and the live batches.
func checkBatches(t *testing.T, release, topic string, replayed []pyBatch, live map[int]pyBatch) {
	t.Helper()
	removed, cached := 0, map[string]int{}
	for i, b := range replayed {
		if b.Sequence != i || b.Rank != 0 || !b.Same || b.Topic != topic {
			t.Errorf("%s: batch %d is %+v", release, i, b)
		}
		if l, ok := live[i]; ok && (l.Payload != b.Payload || l.Topic != "kv@pod-0@tiny") {
			t.Errorf("%s: batch %d came live as %+v", release, i, l)
		}
		for _, e := range b.Events {
			switch {
			case e.Class == "BlockRemoved" && len(e.Hashes) == 1 && cached[e.Hashes[0]] > 0:
				removed++
				cached[e.Hashes[0]]--
			case e.Class == "BlockStored" && len(e.Tokens) == 16*len(e.Hashes) && (e.Parent == "" || cached[e.Parent] > 0):
				for _, h := range e.Hashes {
					cached[h]++
				}
			default:
				t.Errorf("%s: batch %d tells %+v", release, i, e)
			}
		}
	}
	if removed == 0 || len(live) < 8 || len(replayed) < len(live) {
		t.Fatalf("%s: %d blocks removed, %d batches live and %d of %d in the answer", release, removed, len(live), len(replayed), len(live))
	}
}

// An invalid --kv-events-config is rejected with one sentence, before the program listens.
func TestVLLMEventsConfig(t *testing.T) {
	for config, want := range map[string]string{
		`{`:                             "must be a JSON object",
		`[1]`:                           "must be a JSON object",
		`{"endpont": ""}`:               `no key "endpont", did you mean endpoint?`,
		`{"enable_kv_cache_events": 1}`: "cannot unmarshal number",
		`{"enable_kv_cache_events": true, "endpoint": "ipc:///x"}`:            `endpoint "ipc:///x": expected tcp://host:port`,
		`{"enable_kv_cache_events": true, "publisher": "nats"}`:               `publisher is "nats", must be zmq or null`,
		`{"enable_kv_cache_events": true, "hwm": 0}`:                          "hwm is 0, must be at least 1",
		`{"enable_kv_cache_events": true, "buffer_steps": -1}`:                "buffer_steps is -1, must be at least 1",
		`{"enable_kv_cache_events": true, "max_queue_size": 0}`:               "max_queue_size is 0, must be at least 1",
		`{"enable_kv_cache_events": true, "replay_endpoint": "x"}`:            `replay_endpoint: endpoint "x": expected tcp://host:port`,
		`{"enable_kv_cache_events": true, "replay_endpoint": "tcp://*:5558"}`: "ports 5557 and 5558 are of 3 sockets each, must be at least 3 apart",
	} {
		var out, errs bytes.Buffer
		if code := run([]string{"vllm", "--port=0", "--fleet=3", "--kv-events-config", config}, strings.NewReader(""), &out, &errs); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit code %d, %s%s, want %q", config, code, &out, &errs, want)
		}
	}
}

// VLLM_SERVER_DEV_MODE must be 0 or 1.
func TestDevModeVariable(t *testing.T) {
	t.Setenv("VLLM_SERVER_DEV_MODE", "yes")
	var out, errs bytes.Buffer
	if code := run([]string{"vllm", "--port=0"}, strings.NewReader(""), &out, &errs); code != 2 || !strings.Contains(errs.String(), `VLLM_SERVER_DEV_MODE is "yes", must be 0 or 1`) {
		t.Errorf("exit code %d, %s", code, &errs)
	}
}

// Workers publish in every layout, each rank on its own sockets. The frontend routes prompts by the events of all
// ranks.
func TestWorkerLayouts(t *testing.T) {
	t.Parallel()
	for i, layout := range kvevents.Layouts() {
		c := newCompound(t)
		w := c.worker("--kv-events-layout="+layout, "--data-parallel-size=2", "--scheduler-profile=vllm", "--speedup-ratio=50", "--block-size=16")
		if len(w.Ranks) != 2 || w.Ranks[0].Events != w.KVEvents || w.Ranks[1].Rank != 1 {
			t.Fatalf("%s: ranks %+v", layout, w.Ranks)
		}
		told := make(chan kvevents.Received, 1000)
		for _, at := range w.Ranks {
			s, err := kvevents.Subscribe(kvevents.SubscriberOptions{Events: at.Events, Replay: at.Replay, Observe: func(r kvevents.Received) { told <- r }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
		}
		front := c.front("--router=kv")
		awaitModel(t, front, "mocker-model")
		body := fmt.Sprintf(`{"model":"mocker-model","max_tokens":2,"prompt":[%s7]}`, strings.Repeat("7,", 100))
		poll.Until(t, "the prompt is found", func() bool {
			status, text := postJSON(t, front.HTTP+"/v1/completions", body)
			if status != http.StatusOK {
				t.Fatalf("%s: %d %s", layout, status, text)
			}
			return strings.Contains(text, `"cached_tokens":96`)
		})
		first := <-told
		e := first.Batch.Events[0]
		if hasTokens := len(e.Tokens) == 96 && len(e.TokensHashes) == 0; e.Kind != kvevents.Stored || hasTokens != (i > 0) {
			t.Errorf("%s: the first event is %+v", layout, e)
		}
	}
}
