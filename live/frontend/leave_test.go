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

// A client that leaves before the first byte, or in the middle of a stream, stops
// its request, which is counted once.
func TestClientLeaves(t *testing.T) {
	for _, test := range []struct {
		name, path, body string
		tokens           int // before it blocks
		leave            func(c net.Conn)
		counted          string
	}{
		{"unary before all", "/v1/completions", `{"model":"m","prompt":"a"}`, 0, hangUp, "m completions unary"},
		{"unary half way", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":""}]}`, 3, hangUp, "m chat_completions unary"},
		{"stream before all", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":""}],"stream":true}`, 0, hangUp, "m chat_completions stream"},
		{"stream half way", "/v1/completions", `{"model":"m","prompt":"a","stream":true}`, 2, afterFirst, "m completions stream"},
		{"reset", "/v1/completions", `{"model":"m","prompt":"a","stream":true}`, 2, reset, "m completions stream"},
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
			s.counts.await(t, "finished", func() bool { return s.counts.finished == 1 })
			if len(s.counts.cancelled) != 1 || s.counts.cancelled[test.counted] != 1 || s.counts.statuses[499] != 1 {
				t.Errorf("counted %v with statuses %v, want %s once", s.counts.cancelled, s.counts.statuses, test.counted)
			}
			if s.counts.output != test.tokens {
				t.Errorf("%d tokens, want %d", s.counts.output, test.tokens)
			}
		})
	}
}

func hangUp(c net.Conn) { c.Close() }

// afterFirst leaves once the first event is there.
func afterFirst(c net.Conn) {
	in := bufio.NewScanner(c)
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "data: ") {
			break
		}
	}
	c.Close()
}

// reset leaves without a farewell.
func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// A client that has everything and hangs up has cancelled nothing.
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
	s.counts.await(t, "finished", func() bool { return s.counts.finished == 20 })
	if len(s.counts.cancelled) != 0 || s.counts.statuses[200] != 20 {
		t.Errorf("cancelled %v, statuses %v", s.counts.cancelled, s.counts.statuses)
	}
}
