package mocker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/live/conformance"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/blockhash"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hang is the timeout of a test for immediate results.
const hang = 30 * time.Second

// quick returns engine arguments with a speedup of 20.
func quick(kind engineargs.Engine) engineargs.Args {
	a := engineargs.Default()
	if kind == engineargs.TRTLLM {
		a, _ = engineargs.Parse([]byte(`{"engine_type":"trtllm"}`), engineargs.Options{}) // the arguments are valid
	}
	a.Engine, a.Speedup, a.BlockTokens = kind, 20, 16
	return a
}

// start starts a mocker that ends with the test.
func start(t *testing.T, o Options) *Engine {
	t.Helper()
	e, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Cleanup(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// drained waits until no request is on the scheduler.
func drained(t *testing.T, e *Engine) {
	t.Helper()
	ctx, end := context.WithTimeout(context.Background(), hang)
	defer end()
	if err := e.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

func ask(tokens []uint32, maxTokens uint32) *engine.Request {
	rq := &engine.Request{TokenIDs: tokens}
	rq.SetMaxTokens(maxTokens)
	return rq
}

// words returns n consecutive tokens from first.
func words(first, n int) []uint32 {
	tokens := make([]uint32, n)
	for i := range tokens {
		tokens[i] = uint32(first + i)
	}
	return tokens
}

// answer reads the complete answer to a request.
func answer(e engine.Engine, rq *engine.Request, rc engine.GenContext, each func(n int)) (tokens []uint32, last *engine.Chunk, err error) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	chunks, err := e.Generate(ctx, rq, rc)
	if err != nil {
		return nil, nil, err
	}
	for c, err := range chunks {
		if err != nil {
			return tokens, nil, err
		}
		if last != nil {
			return tokens, last, errors.New("a chunk after the terminal")
		}
		tokens = append(tokens, c.TokenIDs...)
		if c.FinishReason != "" {
			last = c
		}
		if each != nil {
			each(len(tokens))
		}
	}
	return tokens, last, nil
}

// The conformance tests pass in all modes, for all schedulers.
func TestConformance(t *testing.T) {
	for _, kind := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang, engineargs.TRTLLM} {
		for _, mode := range []engine.Mode{engine.Aggregated, engine.Prefill, engine.Decode} {
			t.Run(fmt.Sprintf("%v/%s", kind, mode), func(t *testing.T) {
				err := conformance.Run(t, func() engine.Engine {
					e, err := New(Options{Engine: quick(kind), Mode: mode, KVEvents: true})
					if err != nil {
						t.Fatal(err)
					}
					return e
				}, conformance.WithRequest(func(rq *engine.Request) {
					if mode == engine.Decode {
						rq.PrefillResult = &engine.PrefillResult{DisaggregatedParams: json.RawMessage(`{}`)}
					}
				}))
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// Each of many concurrent requests gets exactly its tokens, and no request is left on the scheduler.
func TestManyAtOnce(t *testing.T) {
	for _, kind := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang, engineargs.TRTLLM} {
		e := start(t, Options{Engine: quick(kind)})
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				tokens, last, err := answer(e, ask(words(1000*i, 40), 64), conformance.MockContext(), nil)
				if err != nil || len(tokens) != 64 || last == nil || last.FinishReason != engine.FinishLength ||
					last.CompletionUsage.CompletionTokens != 64 || last.CompletionUsage.PromptTokens != 40 {
					t.Errorf("%v: request %d: %d tokens, last %+v, error %v", kind, i, len(tokens), last, err)
				}
				for _, token := range tokens {
					if token < 1000 || token > 1999 {
						t.Errorf("token %d, want 1000 to 1999", token)
					}
				}
			})
		}
		all.Wait()
		drained(t, e)
		if f := e.Fullness(); f.ActiveBlocks != 0 || e.ActiveRequests() != 0 {
			t.Errorf("%v: %+v and %d requests in the end", kind, f, e.ActiveRequests())
		}
	}
}

// tally is a Watcher that counts tokens.
type tally struct{ tokens atomic.Int64 }

func (c *tally) Passed(p *telemetry.Pass) { c.tokens.Add(int64(p.Generated)) }
func (c *tally) Admitted(int, int)        {}
func (c *tally) Prefilled(int, int)       {}
func (c *tally) Over(*RequestFacts)       {}

// A token that a client has read is already counted by the watcher.
func TestWatcherIsToldFirst(t *testing.T) {
	for _, kind := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang, engineargs.TRTLLM} {
		var c tally
		args := quick(kind)
		args.Speedup = 1000
		e := start(t, Options{Engine: args, Watch: &c})
		var all sync.WaitGroup
		var read atomic.Int64
		for i := range 16 {
			all.Go(func() {
				for k := range 400 {
					seen := 0
					_, _, err := answer(e, ask(words(1000*i+k, 3), 2), conformance.MockContext(), func(n int) {
						sum := read.Add(int64(n - seen))
						seen = n
						if told := c.tokens.Load(); told < sum {
							t.Errorf("%v: clients have read %d tokens, the watcher was told of %d", kind, sum, told)
						}
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
}

// A stop ends a request early with its tokens so far, and frees its blocks.
func TestStop(t *testing.T) {
	for _, kind := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang, engineargs.TRTLLM} {
		e := start(t, Options{Engine: quick(kind)})
		rc := conformance.MockContext()
		tokens, last, err := answer(e, ask(words(0, 100), 10_000), rc, func(n int) {
			if n == 5 {
				rc.Stop()
				e.Abort(rc)
			}
		})
		if err != nil || last == nil || last.FinishReason != engine.FinishCancelled || int(last.CompletionUsage.CompletionTokens) != len(tokens) || len(tokens) != 5 {
			t.Errorf("%v: %d tokens, last %+v, error %v", kind, len(tokens), last, err)
		}
		drained(t, e)
		if f := e.Fullness(); f.ActiveBlocks != 0 {
			t.Errorf("%v: %d blocks are held in the end", kind, f.ActiveBlocks)
		}
	}
}

// A request that is stopped before its start, and an answer of 0 tokens, do not reach the scheduler.
func TestNothingToDo(t *testing.T) {
	e := start(t, Options{Engine: quick(engineargs.VLLM)})
	rc := conformance.MockContext()
	rc.Stop()
	if tokens, last, err := answer(e, ask(words(0, 10), 5), rc, nil); err != nil || len(tokens) > 0 || last.FinishReason != engine.FinishCancelled {
		t.Errorf("stopped: %v, %+v, %v", tokens, last, err)
	}
	if tokens, last, err := answer(e, ask(words(0, 10), 0), conformance.MockContext(), nil); err != nil || len(tokens) > 0 || last.FinishReason != engine.FinishLength {
		t.Errorf("no tokens: %v, %+v, %v", tokens, last, err)
	}
}

// A repeated prompt is found in the cache, and usage reports its cached tokens.
func TestCachedTokens(t *testing.T) {
	for _, kind := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang, engineargs.TRTLLM} {
		e := start(t, Options{Engine: quick(kind)})
		again := uint32(96)
		if kind == engineargs.TRTLLM {
			again = 99 // the prompt shares the start of a block
		}
		for i, want := range []uint32{0, again} {
			_, last, err := answer(e, ask(words(0, 100), 4), conformance.MockContext(), nil)
			if err != nil || last.CompletionUsage.PromptTokensDetails.CachedTokens != want {
				t.Errorf("%v: request %d: last %+v, error %v, want %d cached tokens", kind, i, last, err, want)
			}
		}
		if f := e.Fullness(); f.HitRate <= 0 || f.HitRate >= 1 {
			t.Errorf("%v: hit rate is %v", kind, f.HitRate)
		}
	}
}

// Requests with the same id and prompt get the same tokens.
func TestTokensFollowTheID(t *testing.T) {
	e := start(t, Options{Engine: quick(engineargs.VLLM)})
	rc, other := conformance.MockContext(), conformance.MockContext()
	a, _, _ := answer(e, ask(words(0, 10), 20), rc, nil)
	b, _, _ := answer(e, ask(words(0, 10), 20), rc, nil)
	c, _, _ := answer(e, ask(words(0, 10), 20), other, nil)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("tokens %v and %v of one id, %v of another", a, b, c)
	}
}

// Options that cannot be simulated are refused, with the option in the error.
func TestRefusesOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"context length": func(o *Options) { o.ContextLength = -1 },
		"block_size":     func(o *Options) { o.Engine.BlockTokens = 3 },
		"aic":            func(o *Options) { o.Engine.AIC.Backend = "something" },
		"dp_size":        func(o *Options) { o.Engine.DPSize = 2 },
		"mode":           func(o *Options) { o.Mode = "both" },
	} {
		o := Options{Engine: engineargs.Default()}
		change(&o)
		if _, err := New(o); !errors.Is(err, fault.BackendInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want an invalid argument about %s", err, want)
		}
	}
}

// A request that can never be served is refused at once.
func TestRefuses(t *testing.T) {
	e := start(t, Options{Engine: quick(engineargs.VLLM), Mode: engine.Decode, ContextLength: 100})
	done := &engine.PrefillResult{DisaggregatedParams: json.RawMessage(`{}`)}
	for name, rq := range map[string]*engine.Request{
		"no tokens":        {PrefillResult: done},
		"long prompt":      {TokenIDs: words(0, 101), PrefillResult: done},
		"no prefill":       {TokenIDs: words(0, 10)},
		"beyond the cache": func() *engine.Request { r := ask(words(0, 10), 1<<30); r.PrefillResult = done; return r }(),
	} {
		if _, err := e.Generate(t.Context(), rq, conformance.MockContext()); !errors.Is(err, fault.BackendInvalidArgument) {
			t.Errorf("%s: error %v, want an invalid argument", name, err)
		}
	}
	if _, err := New(Options{Engine: func() engineargs.Args { a := quick(engineargs.VLLM); a.BlockTokens = 3; return a }()}); !errors.Is(err, fault.BackendInvalidArgument) {
		t.Errorf("blocks of 3 tokens: error %v", err)
	}
}

// A second Start fails, and the running mocker continues.
func TestSecondStart(t *testing.T) {
	e := start(t, Options{Engine: quick(engineargs.VLLM)})
	if _, err := e.Start(t.Context(), 2); !errors.Is(err, fault.BackendEngineShutdown) {
		t.Errorf("second start: error %v", err)
	}
	if tokens, _, err := answer(e, ask(words(0, 10), 3), conformance.MockContext(), nil); err != nil || len(tokens) != 3 {
		t.Errorf("after it: %v, %v", tokens, err)
	}
	if _, err := (&Engine{stage: e.stage, options: e.options}).Generate(t.Context(), ask(words(0, 10), 3), conformance.MockContext()); !errors.Is(err, fault.BackendEngineShutdown) {
		t.Errorf("without a start: error %v", err)
	}
}

// Cleanup ends requests in flight as cancelled.
func TestCleanupCancels(t *testing.T) {
	e, err := New(Options{Engine: quick(engineargs.VLLM)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Start(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	once := sync.OnceFunc(func() {
		if err := e.Cleanup(context.Background()); err != nil {
			t.Error(err)
		}
	})
	_, last, err := answer(e, ask(words(0, 10), 100_000), conformance.MockContext(), func(int) { once() })
	if err != nil || last == nil || last.FinishReason != engine.FinishCancelled {
		t.Errorf("last %+v, error %v", last, err)
	}
}

// A consumer that stops reading leaves no request on the scheduler.
func TestConsumerLeaves(t *testing.T) {
	e := start(t, Options{Engine: quick(engineargs.VLLM)})
	chunks, err := e.Generate(t.Context(), ask(words(0, 10), 10_000), conformance.MockContext())
	if err != nil {
		t.Fatal(err)
	}
	for range chunks {
		break
	}
	drained(t, e)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	if chunks, err = e.Generate(ctx, ask(words(0, 10), 10_000), conformance.MockContext()); err != nil {
		t.Fatal(err)
	}
	for range chunks {
		end()
	}
	drained(t, e)
}

// A prefill worker sends its last chunk after the KV cache has been transferred.
func TestPrefill(t *testing.T) {
	a := quick(engineargs.VLLM)
	a.TransferGBPerSecond, a.KVBytesPerToken = 1, 500_000 // 50 ms for 100 tokens
	e := start(t, Options{Engine: a, Mode: engine.Prefill})
	began := time.Now()
	tokens, last, err := answer(e, ask(words(0, 100), 7), conformance.MockContext(), nil)
	if err != nil || len(tokens) != 1 || last == nil {
		t.Fatalf("%v, %+v, %v", tokens, last, err)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("the terminal came after %v, want 50 ms for the transfer", took)
	}
	var params struct {
		Handle string   `json:"mocker_handle"`
		Tokens []uint32 `json:"completed_tokens"`
	}
	if err := json.Unmarshal(last.DisaggregatedParams, &params); err != nil || params.Handle == "" || !slices.Equal(params.Tokens, tokens) {
		t.Errorf("parameters %s: %v", last.DisaggregatedParams, err)
	}
}

// KV events name blocks by the hashes of their tokens, as a router does. Callers receive the events over the mocker's
// sockets, too.
func TestKVEvents(t *testing.T) {
	for _, o := range []Options{
		{Engine: quick(engineargs.VLLM), KVEvents: true}, {Engine: quick(engineargs.SGLang), KVEvents: true}, {Engine: quick(engineargs.TRTLLM), KVEvents: true}, {Engine: quick(engineargs.VLLM), KVSockets: &kvevents.TeeOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"}},
	} {
		kind, e := o.Engine.Engine, start(t, o)
		sources, err := e.KVEventSources()
		if err != nil || len(sources) != 1 || (sources[0].Zmq != nil) != (o.KVSockets != nil) {
			t.Fatalf("sources %+v, %v", sources, err)
		}
		var mu sync.Mutex
		stored := map[uint64]uint64{}
		sources[0].OnReady(func(events []any) {
			mu.Lock()
			defer mu.Unlock()
			for _, x := range events {
				for _, b := range x.(scheduler.KVEvent).Stored {
					stored[b.Seq] = b.Tokens
				}
			}
		})
		tokens := words(7, 50)
		if _, _, err := answer(e, ask(tokens, 2), conformance.MockContext(), nil); err != nil {
			t.Fatal(err)
		}
		local := blockhash.Request(tokens, 16, blockhash.Options{})
		mu.Lock()
		for i, seq := range blockhash.Sequence(local) {
			if stored[seq] != local[i] {
				t.Errorf("%v: block %d is stored as %x, want %x", kind, i, stored[seq], local[i])
			}
		}
		mu.Unlock()
	}
}

// A scheduler that fails ends all streams with an error, and the mocker serves no more requests.
func TestBrokenScheduler(t *testing.T) {
	e := start(t, Options{Engine: quick(engineargs.VLLM), KVEvents: true})
	sources, _ := e.KVEventSources()
	sources[0].OnReady(func([]any) { panic("on purpose") })
	_, _, err := answer(e, ask(words(0, 100), 1000), conformance.MockContext(), nil)
	if !errors.Is(err, fault.BackendEngineShutdown) {
		t.Errorf("error %v, want a shutdown", err)
	}
	if _, err := e.Generate(t.Context(), ask(words(0, 10), 1), conformance.MockContext()); !errors.Is(err, fault.BackendEngineShutdown) {
		t.Errorf("next: error %v, want a shutdown", err)
	}
}

// A retry on the same worker has the id of the first attempt, which may still be running. The end of the first
// attempt does not end the retry.
func TestTriesShareAnID(t *testing.T) {
	e := start(t, Options{Engine: quick(engineargs.VLLM)})
	first, second := conformance.MockContext(), conformance.MockContext()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, last, err := answer(e, ask(words(0, 100), 10_000), first, func(n int) {
			if n == 5 {
				first.Stop()
				e.Abort(first)
			}
		})
		if err != nil || last == nil || last.FinishReason != engine.FinishCancelled {
			t.Errorf("the first try: last %+v, error %v", last, err)
		}
	}()
	tokens, last, err := answer(e, ask(words(0, 100), 200), namesake{second, first.ID()}, nil)
	if err != nil || last == nil || last.FinishReason != engine.FinishLength || len(tokens) != 200 {
		t.Errorf("the second: %d tokens, last %+v, error %v", len(tokens), last, err)
	}
	<-over
	drained(t, e)
}

// namesake is a context with a given id.
type namesake struct {
	engine.GenContext
	id string
}

func (n namesake) ID() string { return n.id }
