package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
)

// fake is an engine with a function for each method.
type fake struct {
	Defaults
	generate func(ctx context.Context, rq *Request, rc GenContext, yield func(*Chunk, error) bool)
	setup    func(rq *Request) error
	abort    func(rc cancel.Context)
	aborts   atomic.Int32
}

func (f *fake) Start(context.Context, uint64) (EngineConfig, error) {
	return EngineConfig{Model: "fake"}, nil
}

func (f *fake) Generate(ctx context.Context, rq *Request, rc GenContext) (iter.Seq2[*Chunk, error], error) {
	if f.setup != nil {
		if err := f.setup(rq); err != nil {
			return nil, err
		}
	}
	return func(yield func(*Chunk, error) bool) { f.generate(ctx, rq, rc, yield) }, nil
}

func (f *fake) Abort(rc cancel.Context) {
	f.aborts.Add(1)
	if f.abort != nil {
		f.abort(rc)
	}
}

func (f *fake) Cleanup(context.Context) error { return nil }

// token returns a chunk with one token, finish a last chunk.
func token(id uint32) *Chunk       { return &Chunk{TokenIDs: []uint32{id}} }
func finish(r FinishReason) *Chunk { return &Chunk{FinishReason: r} }

// released returns an adapter as in release builds, without validation.
func released(e Engine, o AdapterOptions) *Adapter {
	a := NewAdapter(e, o)
	a.validate = false
	return a
}

// outcome returns one word for each element that the consumer reads.
func outcome(t *testing.T, a *Adapter, rc cancel.Context, rq *Request) []string {
	t.Helper()
	chunks, err := a.Generate(t.Context(), rc, rq, nil)
	if err != nil {
		return []string{"refused " + err.Error()}
	}
	var words []string
	for c, err := range chunks {
		words = append(words, word(c, err))
	}
	return words
}

func word(c *Chunk, err error) string {
	var typed *Error
	switch {
	case errors.As(err, &typed):
		return string(typed.Type)
	case err != nil:
		return "untyped " + err.Error()
	case c.FinishReason != "":
		return string(c.FinishReason)
	}
	return fmt.Sprint(c.TokenIDs)
}

func request() *Request { return &Request{TokenIDs: []uint32{1, 2, 3}} }

// Each case is the behavior of an engine and the elements that the consumer reads.
func TestOutcomes(t *testing.T) {
	tests := []struct {
		name string
		do   func(ctx context.Context, rq *Request, rc GenContext, yield func(*Chunk, error) bool)
		want []string
	}{
		{"keeps the contract", func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			_ = yield(token(1), nil) && yield(token(2), nil) && yield(finish(FinishLength), nil)
		}, []string{"[1]", "[2]", "length"}},
		{"ends without a terminal", func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			yield(token(1), nil)
		}, []string{"[1]", "Backend(StreamIncomplete)"}},
		{"ends at once", func(context.Context, *Request, GenContext, func(*Chunk, error) bool) {}, []string{"Backend(StreamIncomplete)"}},
		{"ends without a terminal when stopped", func(_ context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
			yield(token(1), nil)
			rc.Stop()
		}, []string{"[1]"}},
		{"is stopped and says so", func(_ context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
			rc.Stop()
			yield(finish(FinishCancelled), nil)
		}, []string{"cancelled"}},
		{"ignores a stop", func(_ context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
			rc.Stop()
			_ = yield(token(1), nil) && yield(token(2), nil) && yield(finish(FinishStop), nil)
		}, []string{"[1]", "[2]", "stop"}},
		{"ignores a kill", func(_ context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
			if yield(token(1), nil) {
				rc.Kill()
			}
			if yield(token(2), nil) {
				panic("a chunk was wanted after a kill")
			}
		}, []string{"[1]"}},
		{"yields a typed error", func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			_ = yield(token(1), nil) && yield(nil, fault.New(fault.BackendResponseTimeout, "GPU asleep"))
		}, []string{"[1]", "Backend(ResponseTimeout)"}},
		{"yields an error of the top level", func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			yield(nil, fmt.Errorf("in block 3: %w", fault.New(fault.Disconnected, "x")))
		}, []string{"Backend(Disconnected)"}},
		{"yields a foreign error", func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			yield(nil, io.ErrUnexpectedEOF)
		}, []string{"Backend(Unknown)"}},
		{"finishes with an error", func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			yield(finish(FinishError("broke")), nil)
		}, []string{"error: broke"}},
		{"yields neither", func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			yield(nil, nil)
		}, []string{"Backend(Unknown)"}},
		{"panics at once", func(context.Context, *Request, GenContext, func(*Chunk, error) bool) { panic("boo") }, []string{"Backend(Unknown)"}},
		{"panics later", func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
			yield(token(1), nil)
			var none []int
			_ = none[3]
		}, []string{"[1]", "Backend(Unknown)"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := outcome(t, NewAdapter(&fake{generate: test.do}, AdapterOptions{}), cancel.New(""), request()); !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// If an engine yields after its terminal, the stream is cut off and logged. An adapter that validates panics instead.
func TestAfterTerminal(t *testing.T) {
	ends := map[string]func(yield func(*Chunk, error) bool) bool{
		"length": func(yield func(*Chunk, error) bool) bool { return yield(finish(FinishLength), nil) },
		"Backend(Cancelled)": func(yield func(*Chunk, error) bool) bool {
			return yield(nil, fault.New(fault.BackendCancelled, "x"))
		},
	}
	more := map[string]func(yield func(*Chunk, error) bool){
		"a chunk with 1 tokens":   func(yield func(*Chunk, error) bool) { yield(token(9), nil) },
		`finish_reason "stop"`:    func(yield func(*Chunk, error) bool) { yield(finish(FinishStop), nil) },
		"error EOF":               func(yield func(*Chunk, error) bool) { yield(nil, io.EOF) },
		"neither chunk nor error": func(yield func(*Chunk, error) bool) { yield(nil, nil) },
		"a chunk with 0 tokens":   func(yield func(*Chunk, error) bool) { yield(&Chunk{}, nil) },
	}
	for want, end := range ends {
		for what, again := range more {
			e := &fake{generate: func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
				end(yield)
				again(yield)
			}}
			var log strings.Builder
			a := released(e, AdapterOptions{Log: slog.New(slog.NewTextHandler(&log, nil))})
			if got := outcome(t, a, cancel.New(""), request()); !slices.Equal(got, []string{want}) {
				t.Errorf("%s, then %s: %q, want it cut off", want, what, got)
			}
			if !strings.Contains(log.String(), "engine contract") {
				t.Errorf("%s, then %s: the log says %q", want, what, log.String())
			}
			var words []string
			p := panicOf(func() {
				chunks, err := NewAdapter(e, AdapterOptions{}).Generate(t.Context(), cancel.New(""), request(), nil)
				if err != nil {
					t.Fatal(err)
				}
				for c, err := range chunks {
					words = append(words, word(c, err))
				}
			})
			if !isViolation(p) || !strings.Contains(fmt.Sprint(p), what) {
				t.Errorf("%s, then %s: panic %v, want one that tells", want, what, p)
			}
			if !slices.Equal(words, []string{want}) {
				t.Errorf("%s, then %s: the consumer saw %q", want, what, words)
			}
		}
	}
}

func panicOf(do func()) (p any) {
	defer func() { p = recover() }()
	do()
	return nil
}

// An element after the terminal is detected even if the consumer stops reading at the terminal.
func TestAfterTerminalUnseen(t *testing.T) {
	e := &fake{generate: func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		yield(finish(FinishStop), nil)
		yield(token(1), nil)
	}}
	p := panicOf(func() {
		chunks, err := NewAdapter(e, AdapterOptions{}).Generate(t.Context(), cancel.New(""), request(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range chunks {
			break
		}
	})
	if !isViolation(p) {
		t.Errorf("panic %v, want a broken contract", p)
	}
}

// An error or panic of Generate is returned with a Backend type.
func TestSetupErrors(t *testing.T) {
	tests := []struct {
		setup func(*Request) error
		want  fault.Type
	}{
		{func(*Request) error { return fault.New(fault.InvalidArgument, "x") }, fault.BackendInvalidArgument},
		{func(*Request) error { return io.EOF }, fault.BackendUnknown},
		{func(*Request) error { panic(io.EOF) }, fault.BackendUnknown},
		{func(*Request) error { panic("boo") }, fault.BackendUnknown},
	}
	for i, test := range tests {
		_, err := NewAdapter(&fake{setup: test.setup}, AdapterOptions{}).Generate(t.Context(), cancel.New(""), request(), nil)
		if !errors.Is(err, test.want) {
			t.Errorf("%d: %v, want %v", i, err, test.want)
		}
	}
}

// Prefill workers get requests for one token. Decode workers reject requests without a prefill result and without
// bootstrap info.
func TestModes(t *testing.T) {
	var asked uint32
	var left *PrefillResult
	e := &fake{generate: func(_ context.Context, rq *Request, _ GenContext, yield func(*Chunk, error) bool) {
		asked, left = rq.MaxTokens(16), rq.PrefillResult
		yield(finish(FinishLength), nil)
	}}
	rq := request()
	rq.SetMaxTokens(10)
	outcome(t, NewAdapter(e, AdapterOptions{Mode: Prefill}), cancel.New(""), rq)
	if asked != 1 || rq.MaxTokens(16) != 10 {
		t.Errorf("the engine was asked for %d tokens, want 1; the caller's request says %d, want 10", asked, rq.MaxTokens(16))
	}
	got := outcome(t, NewAdapter(e, AdapterOptions{Mode: Decode}), cancel.New(""), rq)
	if len(got) != 1 || !strings.HasPrefix(got[0], "refused Backend(InvalidArgument)") {
		t.Errorf("a decode worker without a prefill result: %q", got)
	}
	rq.BootstrapInfo = &BootstrapInfo{Host: "h", Port: 7, Room: 3}
	got = outcome(t, NewAdapter(e, AdapterOptions{Mode: Decode}), cancel.New(""), rq)
	if !slices.Equal(got, []string{"length"}) || left == nil || string(left.DisaggregatedParams) != `{"bootstrap_host":"h","bootstrap_port":7,"bootstrap_room":3}` || rq.PrefillResult != nil {
		t.Errorf("a decode worker that meets the prefill worker: %q, left with %+v", got, left)
	}
	rq.PrefillResult = &PrefillResult{}
	if got := outcome(t, NewAdapter(e, AdapterOptions{Mode: Decode}), cancel.New(""), rq); !slices.Equal(got, []string{"length"}) {
		t.Errorf("a decode worker with a prefill result: %q", got)
	}
	for text, want := range map[string]Mode{"agg": Aggregated, " Aggregated ": Aggregated, "PREFILL": Prefill, "decode\n": Decode} {
		if got, err := ParseMode(text); err != nil || got != want {
			t.Errorf("mode %q is %q (%v), want %q", text, got, err, want)
		}
	}
	for _, bad := range []string{"", "encode"} {
		if _, err := ParseMode(bad); !errors.Is(err, fault.BackendInvalidArgument) {
			t.Errorf("mode %q: %v, want an invalid argument", bad, err)
		}
	}
	if got, err := parseEndpointTypes("Chat, embeddings"); err != nil || !slices.Equal(got, []EndpointType{Chat, Embedding}) {
		t.Errorf("endpoint types %q (%v)", got, err)
	}
	for _, bad := range []string{"", "chat,", "speech"} {
		if _, err := parseEndpointTypes(bad); !errors.Is(err, fault.BackendInvalidArgument) {
			t.Errorf("endpoint types %q: %v, want an invalid argument", bad, err)
		}
	}
}
