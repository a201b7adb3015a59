package frontend_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/listen/listentest"
	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/frontend"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/telemetry"
)

// timeLimit is the timeout of a test.
const timeLimit = time.Minute

// fake is a model that answers with a function.
type fake struct {
	answer func(ctx context.Context, rc cancel.Context, rq *engine.Request, yield func(*engine.Chunk, error) bool)
	setup  func(*engine.Request) error
	ended  chan cancel.Context // receives the context of each answer that is over
}

func (f *fake) Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, _ map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
	if f.setup != nil {
		if err := f.setup(rq); err != nil {
			return nil, err
		}
	}
	return func(yield func(*engine.Chunk, error) bool) {
		if f.ended != nil {
			defer func() { f.ended <- rc }()
		}
		f.answer(ctx, rc, rq, yield)
	}, nil
}

// repeat answers with the first tokens of the prompt, up to the requested number, one token per chunk.
func repeat(_ context.Context, _ cancel.Context, rq *engine.Request, yield func(*engine.Chunk, error) bool) {
	n := int(rq.MaxTokens(16))
	for i := range n {
		t := rq.TokenIDs[i%len(rq.TokenIDs)]
		chunk := &engine.Chunk{TokenIDs: []uint32{t}}
		if i == n-1 {
			chunk.FinishReason = engine.FinishLength
		}
		if !yield(chunk, nil) {
			return
		}
	}
	if n == 0 {
		yield(&engine.Chunk{FinishReason: engine.FinishLength}, nil)
	}
}

// models is a fixed list of models.
type models []route.Served

func (m models) Models() ([]route.Served, <-chan struct{}) { return m, nil }

func (m models) Find(name string) (route.Served, bool) {
	for _, one := range m {
		if one.Name == name {
			return one, true
		}
	}
	return route.Served{}, false
}

// site is a running frontend and a client.
type site struct {
	*frontend.Server
	address string
	metrics *telemetry.Metrics
	client  *http.Client
}

// count returns the sum of a metric of the frontend over all series that have the labels, each given as name=value.
func (s *site) count(name string, labels ...string) int {
	given := make(map[string]string)
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		given[key] = value
	}
	return int(s.metrics.Value("dynamo_frontend_"+name, given))
}

// await waits until the sum of a metric over the labels is n.
func (s *site) await(t *testing.T, n int, name string, labels ...string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%d %s", n, name), func() bool { return s.count(name, labels...) == n })
}

// open starts a frontend with the model "m", which f answers.
func open(t *testing.T, f *fake, change func(*frontend.Config)) *site {
	t.Helper()
	s := &site{metrics: telemetry.NewMetrics()}
	c := frontend.Config{
		Models:  models{{Name: "m", ContextLength: 1000, Since: time.Unix(1700000000, 0), Instances: 2, Target: f}},
		Metrics: s.metrics.Requests(), Now: func() time.Time { return time.Unix(1700000001, 0) },
	}
	if change != nil {
		change(&c)
	}
	var err error
	if s.Server, err = frontend.New(c); err != nil {
		t.Fatal(err)
	}
	s.address = listentest.Serve(t, s.Server)
	transport := &http.Transport{}
	s.client = &http.Client{Transport: transport, Timeout: timeLimit}
	t.Cleanup(transport.CloseIdleConnections)
	return s
}

// post sends a body and returns the response and its body.
func (s *site) post(t *testing.T, path, body string) (*http.Response, string) {
	t.Helper()
	return s.do(t, http.MethodPost, path, strings.NewReader(body))
}

func (s *site) do(t *testing.T, method, path string, body io.Reader) (*http.Response, string) {
	t.Helper()
	rq, err := http.NewRequest(method, "http://"+s.address+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.client.Do(rq)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s %s: %v after %q", method, path, err, b)
	}
	return r, string(b)
}

// dial opens a connection and writes text to it.
func (s *site) dial(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(timeLimit))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// raw returns the bytes of an HTTP request.
func raw(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// status reads the status of the next answer on c.
func status(t *testing.T, c net.Conn) int {
	t.Helper()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return r.StatusCode
}

// text returns the text and the finish reason of an answer with one choice.
func text(t *testing.T, body string) (said, reason string) {
	t.Helper()
	var a struct {
		Choices []struct {
			Text    string
			Message struct{ Role, Content string }
			Delta   struct{ Role, Content string }
			Reason  string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, c := range a.Choices {
		said += c.Text + c.Message.Content + c.Delta.Content
		reason += c.Reason
	}
	return said, reason
}

// events returns the data of a stream of server-sent events.
func events(t *testing.T, body string) []string {
	t.Helper()
	var all []string
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok {
			t.Fatalf("event %q, want data", event)
		}
		all = append(all, data)
	}
	return all
}
