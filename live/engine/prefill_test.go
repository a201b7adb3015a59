package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
)

// stages is a prefill and a decode engine behind a PrefillRouter.
type stages struct {
	prefill, decode *fake
	router          *PrefillRouter
	decoded         chan *Request // requests as decode received them
}

func newStages() *stages {
	s := &stages{decoded: make(chan *Request, 10)}
	s.prefill = &fake{generate: func(_ context.Context, rq *Request, rc GenContext, yield func(*Chunk, error) bool) {
		usage := NewUsage(3, 1)
		usage.PromptTokensDetails = &PromptTokensDetails{CachedTokens: 2}
		yield(&Chunk{TokenIDs: []uint32{9}, FinishReason: FinishLength, CompletionUsage: usage,
			DisaggregatedParams: json.RawMessage(`{"h":1}`), WorkerTraceLink: &TraceLink{"t", "s"}}, nil)
	}}
	s.decode = &fake{generate: func(_ context.Context, rq *Request, _ GenContext, yield func(*Chunk, error) bool) {
		s.decoded <- rq
		_ = yield(token(1), nil) && yield(finish(FinishLength), nil)
	}}
	s.router = &PrefillRouter{
		Prefill: NewAdapter(s.prefill, AdapterOptions{Mode: Prefill}),
		Decode:  NewAdapter(s.decode, AdapterOptions{Mode: Decode}),
	}
	return s
}

// run returns one word for each element that the consumer reads.
func (s *stages) run(t *testing.T, rc cancel.Context) []string {
	t.Helper()
	rq := request()
	rq.SetMaxTokens(7)
	chunks, err := s.router.Generate(t.Context(), rc, rq, nil)
	if err != nil {
		return []string{"refused " + word(nil, err)}
	}
	var words []string
	for c, err := range chunks {
		words = append(words, word(c, err))
	}
	if rq.PrefillResult != nil || rq.BootstrapInfo != nil || rq.MaxTokens(0) != 7 {
		t.Error("the caller's request was changed")
	}
	return words
}

// The result of prefill reaches decode. The consumer receives only chunks of decode.
func TestPrefillThenDecode(t *testing.T) {
	s := newStages()
	if got := s.run(t, cancel.New("")); !slices.Equal(got, []string{"[1]", "length"}) {
		t.Errorf("%q", got)
	}
	rq := <-s.decoded
	if rq.MaxTokens(0) != 7 || rq.PrefillResult == nil || string(rq.PrefillResult.DisaggregatedParams) != `{"h":1}` ||
		rq.PrefillResult.PromptTokensDetails.CachedTokens != 2 || rq.MigrationLink == nil || *rq.MigrationLink != (TraceLink{"t", "s"}) || rq.BootstrapInfo != nil {
		b, _ := json.Marshal(rq)
		t.Errorf("decode got %s", b)
	}
}

// A stop during prefill reaches prefill, and decode is not called.
func TestStopDuringPrefill(t *testing.T) {
	for _, kill := range []bool{false, true} {
		s := newStages()
		rc := cancel.New("")
		s.prefill.generate = func(ctx context.Context, _ *Request, child GenContext, yield func(*Chunk, error) bool) {
			if child.ID() != rc.ID() {
				t.Errorf("prefill's id is %s, want the request's", child.ID())
			}
			if kill {
				rc.Kill()
				<-child.Killed()
				<-ctx.Done()
			} else {
				rc.Stop()
				<-child.Stopped()
			}
			yield(finish(FinishCancelled), nil)
		}
		want := []string{"cancelled"}
		if kill {
			want = nil
		}
		if got := s.run(t, rc); !slices.Equal(got, want) {
			t.Errorf("kill %v: %q, want %q", kill, got, want)
		}
		if len(s.decoded) != 0 {
			t.Errorf("kill %v: decode was called", kill)
		}
		if n := s.prefill.aborts.Load(); n != 1 {
			t.Errorf("kill %v: prefill was aborted %d times", kill, n)
		}
	}
	// A stop that arrives too late for prefill to report it.
	s := newStages()
	rc := cancel.New("")
	s.prefill.generate = func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		rc.Stop()
		yield(&Chunk{TokenIDs: []uint32{1}, FinishReason: FinishLength, DisaggregatedParams: json.RawMessage(`1`)}, nil)
	}
	if got := s.run(t, rc); !slices.Equal(got, []string{"cancelled"}) || len(s.decoded) != 0 {
		t.Errorf("stopped at the end of prefill: %q, decode called %d times", got, len(s.decoded))
	}
}

// A stop during decode reaches decode, and the consumer receives the terminal of decode.
func TestStopDuringDecode(t *testing.T) {
	s := newStages()
	rc := cancel.New("")
	s.decode.generate = func(_ context.Context, _ *Request, child GenContext, yield func(*Chunk, error) bool) {
		yield(token(1), nil)
		rc.Stop()
		<-child.Stopped()
		yield(finish(FinishCancelled), nil)
	}
	if got := s.run(t, rc); !slices.Equal(got, []string{"[1]", "cancelled"}) {
		t.Errorf("%q", got)
	}
	if p, d := s.prefill.aborts.Load(), s.decode.aborts.Load(); p != 0 || d != 1 {
		t.Errorf("%d and %d aborts, want 0 and 1", p, d)
	}
}

// Errors of prefill and of decode become errors of the request.
func TestPrefillErrors(t *testing.T) {
	yields := func(c *Chunk, err error) func(context.Context, *Request, GenContext, func(*Chunk, error) bool) {
		return func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) { yield(c, err) }
	}
	tests := []struct {
		name   string
		change func(*stages)
		want   []string
	}{
		{"prefill refuses", func(s *stages) {
			s.prefill.setup = func(*Request) error { return fault.New(fault.BackendInvalidArgument, "x") }
		}, []string{"refused Backend(InvalidArgument)"}},
		{"prefill fails", func(s *stages) { s.prefill.generate = yields(nil, fault.BackendDisconnected) }, []string{"Backend(Disconnected)"}},
		{"prefill finishes with an error", func(s *stages) { s.prefill.generate = yields(finish(FinishError("x")), nil) }, []string{"Unknown"}},
		{"prefill leaves nothing", func(s *stages) { s.prefill.generate = yields(finish(FinishLength), nil) }, []string{"Unknown"}},
		{"decode refuses", func(s *stages) {
			s.decode.setup = func(*Request) error { return fault.New(fault.BackendEngineShutdown, "x") }
		}, []string{"Backend(EngineShutdown)"}},
		{"decode fails", func(s *stages) { s.decode.generate = yields(nil, fault.BackendResponseTimeout) }, []string{"Backend(ResponseTimeout)"}},
	}
	for _, test := range tests {
		s := newStages()
		test.change(s)
		if got := s.run(t, cancel.New("")); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// With a host and port, both workers get the request at once, with the same room.
func TestBootstrap(t *testing.T) {
	meet := func(s *stages) {
		s.router.Host, s.router.Port = "h", 7
	}
	s := newStages()
	meet(s)
	rooms := make(chan uint64, 2)
	both := make(chan struct{})
	s.prefill.generate = func(_ context.Context, rq *Request, _ GenContext, yield func(*Chunk, error) bool) {
		rooms <- rq.BootstrapInfo.Room
		<-both // decode is called meanwhile
		yield(finish(FinishLength), nil)
	}
	s.decode.generate = func(_ context.Context, rq *Request, _ GenContext, yield func(*Chunk, error) bool) {
		rooms <- rq.BootstrapInfo.Room
		if rq.BootstrapInfo.Host != "h" || rq.BootstrapInfo.Port != 7 || rq.PrefillResult == nil {
			t.Errorf("decode got %+v", rq)
		}
		close(both)
		_ = yield(token(1), nil) && yield(finish(FinishLength), nil)
	}
	if got := s.run(t, cancel.New("")); !slices.Equal(got, []string{"[1]", "length"}) {
		t.Errorf("%q", got)
	}
	if a, b := <-rooms, <-rooms; a != b || a>>63 != 0 {
		t.Errorf("rooms %d and %d, want one of 63 bits", a, b)
	}

	// Prefill fails while decode waits for it.
	s = newStages()
	meet(s)
	s.prefill.generate = func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		yield(nil, fault.BackendDisconnected)
	}
	s.decode.generate = func(ctx context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		<-ctx.Done()
		yield(nil, fault.BackendResponseTimeout)
	}
	if got := s.run(t, cancel.New("")); !slices.Equal(got, []string{"Backend(Disconnected)"}) {
		t.Errorf("prefill fails: %q", got)
	}

	// The consumer leaves, or stops the request: both workers end.
	for _, leave := range []bool{true, false} {
		s = newStages()
		meet(s)
		rc := cancel.New("")
		ended := make(chan struct{})
		s.prefill.generate = func(ctx context.Context, _ *Request, child GenContext, yield func(*Chunk, error) bool) {
			defer close(ended)
			select {
			case <-ctx.Done():
			case <-child.Stopped():
				yield(finish(FinishCancelled), nil)
			}
		}
		s.decode.generate = func(_ context.Context, _ *Request, child GenContext, yield func(*Chunk, error) bool) {
			if !yield(token(1), nil) {
				return
			}
			<-child.Stopped()
			yield(finish(FinishCancelled), nil)
		}
		chunks, err := s.router.Generate(t.Context(), rc, request(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var last *Chunk
		for c, err := range chunks {
			if last = c; err != nil {
				t.Error(err)
			}
			if leave {
				break
			}
			rc.Stop()
		}
		<-ended
		if !leave && (last == nil || last.FinishReason != FinishCancelled) {
			t.Errorf("stopped: the last chunk is %+v", last)
		}
	}
}

// After its requests, the router has no linked children.
func TestPrefillUnlinks(t *testing.T) {
	s := newStages()
	rc := cancel.New("")
	s.run(t, rc)
	rc.Kill()
	if n := s.prefill.aborts.Load() + s.decode.aborts.Load(); n != 0 {
		t.Errorf("%d aborts after the end", n)
	}
	s.prefill.setup = func(*Request) error { return errors.New("x") }
	if got := s.run(t, cancel.New("")); got[0] != "refused Backend(Unknown)" {
		t.Errorf("%q", got)
	}
}
