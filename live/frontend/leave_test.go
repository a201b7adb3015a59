package frontend_test

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
)

// A client that leaves before the first byte or during a stream stops its request. The cancellation is counted once.
func TestClientLeaves(t *testing.T) {
	for _, test := range []struct {
		name, path, body string
		tokens           int // tokens before the model blocks
		leave            func(c net.Conn)
		counted          []string
	}{
		{"unary before all", "/v1/completions", `{"model":"m","prompt":"a"}`, 0, hangUp, []string{"model=m", "endpoint=completions", "request_type=unary"}},
		{"unary half way", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":""}]}`, 3, hangUp, []string{"model=m", "endpoint=chat_completions", "request_type=unary"}},
		{"stream before all", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":""}],"stream":true}`, 0, hangUp, []string{"model=m", "endpoint=chat_completions", "request_type=stream"}},
		{"stream half way", "/v1/completions", `{"model":"m","prompt":"a","stream":true}`, 2, afterFirst, []string{"model=m", "endpoint=completions", "request_type=stream"}},
		{"reset", "/v1/completions", `{"model":"m","prompt":"a","stream":true}`, 2, reset, []string{"model=m", "endpoint=completions", "request_type=stream"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			began := make(chan struct{})
			f := &fake{ended: make(chan cancel.Context, 1)}
			f.answer = func(_ context.Context, rc cancel.Context, _ *engine.Request, yield func(*engine.Chunk, error) bool) {
				for range test.tokens {
					yield(&engine.Chunk{TokenIDs: []uint32{400}}, nil)
				}
				close(began)
				<-rc.Stopped()
				yield(&engine.Chunk{FinishReason: engine.FinishCancelled}, nil)
			}
			s := open(t, f, nil)
			c := s.dial(t, raw(test.path, test.body))
			<-began
			test.leave(c)
			rc := <-f.ended
			if !rc.IsStopped() || rc.IsKilled() {
				t.Errorf("stopped %v, killed %v, want a stop", rc.IsStopped(), rc.IsKilled())
			}
			s.await(t, 1, "requests_total")
			all, one := s.count("model_cancellation_total"), s.count("model_cancellation_total", test.counted...)
			if left := s.count("requests_total", "status=499"); all != 1 || one != 1 || left != 1 {
				t.Errorf("%d cancelled, %d of %v, %d with status 499, want 1 each", all, one, test.counted, left)
			}
			if n := s.count("output_tokens_total"); n != test.tokens {
				t.Errorf("%d tokens, want %d", n, test.tokens)
			}
		})
	}
}

func hangUp(c net.Conn) { c.Close() }

// afterFirst closes the connection after the first event.
func afterFirst(c net.Conn) {
	in := bufio.NewScanner(c)
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "data: ") {
			break
		}
	}
	c.Close()
}

// reset closes the connection with a TCP reset.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// A client that leaves after the complete answer is not counted as a cancellation.
func TestClientLeavesAfterAll(t *testing.T) {
	s := open(t, &fake{answer: repeat}, nil)
	for i := range 20 {
		body := `{"model":"m","prompt":"a"}`
		if i%2 == 1 {
			body = `{"model":"m","prompt":"a","stream":true}`
		}
		c := s.dial(t, raw("/v1/completions", body))
		in := bufio.NewScanner(c)
		for in.Scan() && !strings.Contains(in.Text(), "[DONE]") && !strings.Contains(in.Text(), `"usage"`) {
		}
		c.Close()
	}
	s.await(t, 20, "requests_total")
	if s.count("model_cancellation_total") != 0 || s.count("requests_total", "status=200") != 20 {
		t.Errorf("%d cancelled, %d with status 200, want 0 and 20", s.count("model_cancellation_total"), s.count("requests_total", "status=200"))
	}
}
