package conformance

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter is an engine that counts: token 0, 1, 2, … up to max_tokens. counter follows the contract, except for its
// flaw.
type counter struct {
	engine.Defaults
	flaw     flaw
	started  atomic.Bool
	active   atomic.Int32
	cleanups atomic.Int32
	asked    int
}

// flaw is one violation of the contract. The zero value is none.
type flaw struct {
	model   string // "-": no model
	start   func() error
	sources func(call int) ([]engine.KVEventSource, error)
	metrics func(call int) (engine.MetricsBindings, error)
	setup   func(active int) error
	stream  func(rq *engine.Request, yield func(*engine.Chunk, error) bool) // yields the answer instead of counting
	deaf    bool                                                            // the engine ignores stops
	mute    bool                                                            // ends without a terminal when stopped
	reason  engine.FinishReason                                             // of an answer that is stopped; "": cancelled
	slow    time.Duration
	usage   uint32 // added to the count
	cleanup func(started bool, call int) error
	keep    bool // dropped requests stay active
}

func (c *counter) Start(context.Context, uint64) (engine.EngineConfig, error) {
	if c.flaw.start != nil {
		if err := c.flaw.start(); err != nil {
			return engine.EngineConfig{}, err
		}
	}
	c.started.Store(true)
	if c.flaw.model == "-" {
		return engine.EngineConfig{}, nil
	}
	return engine.EngineConfig{Model: "counter"}, nil
}

func (c *counter) KVEventSources() ([]engine.KVEventSource, error) {
	if c.flaw.sources == nil {
		return []engine.KVEventSource{{DPRank: 0}, {DPRank: 1}}, nil
	}
	c.asked++
	return c.flaw.sources(c.asked)
}

func (c *counter) SetupMetrics(engine.MetricsContext) (engine.MetricsBindings, error) {
	if c.flaw.metrics == nil {
		return engine.MetricsBindings{DPRanks: []int{0, 1}}, nil
	}
	c.asked++
	return c.flaw.metrics(c.asked)
}

func (c *counter) Generate(ctx context.Context, rq *engine.Request, rc engine.GenContext) (iter.Seq2[*engine.Chunk, error], error) {
	if c.flaw.setup != nil {
		if err := c.flaw.setup(int(c.active.Load())); err != nil {
			return nil, err
		}
	}
	c.active.Add(1)
	return func(yield func(*engine.Chunk, error) bool) {
		done := false
		defer func() {
			if done || !c.flaw.keep {
				c.active.Add(-1)
			}
		}()
		if c.flaw.stream != nil {
			c.flaw.stream(rq, yield)
			return
		}
		done = c.count(ctx, rq, rc, yield)
	}, nil
}

// count yields tokens up to the limit. count reports whether it yielded a terminal.
func (c *counter) count(ctx context.Context, rq *engine.Request, rc engine.GenContext, yield func(*engine.Chunk, error) bool) bool {
	prompt, limit := uint32(len(rq.TokenIDs)), rq.MaxTokens(16)
	for i := range limit {
		select {
		case <-ctx.Done():
			return false
		default:
		}
		if rc.IsStopped() && !c.flaw.deaf {
			reason := cmp.Or(c.flaw.reason, engine.FinishCancelled)
			if !c.flaw.mute {
				yield(&engine.Chunk{FinishReason: reason, CompletionUsage: engine.NewUsage(prompt, i)}, nil)
			}
			return true
		}
		time.Sleep(c.flaw.slow)
		chunk := &engine.Chunk{TokenIDs: []uint32{i}}
		if i == limit-1 {
			chunk.FinishReason = engine.FinishLength
			chunk.CompletionUsage = engine.NewUsage(prompt, limit+c.flaw.usage)
		}
		if !yield(chunk, nil) {
			return false
		}
	}
	return true
}

func (c *counter) Cleanup(context.Context) error {
	call := int(c.cleanups.Add(1))
	if c.flaw.cleanup != nil {
		return c.flaw.cleanup(c.started.Load(), call)
	}
	return nil
}

func (c *counter) ActiveRequests() int { return int(c.active.Load()) }

var errBroken = errors.New("broken on purpose")

// finished returns a last chunk.
func finished() *engine.Chunk { return &engine.Chunk{FinishReason: engine.FinishStop} }

// flaws returns a flaw for each name of a failure.
func flaws() map[Name]flaw {
	broken := func() error { return errBroken }
	unstable := func(call int) []int { return []int{call} }
	return map[Name]flaw{
		StartFailed:          {start: broken},
		EmptyModelInConfig:   {model: "-"},
		KvEventSourcesFailed: {sources: func(int) ([]engine.KVEventSource, error) { return nil, errBroken }},
		KvEventSourcesNotIdempotent: {sources: func(call int) ([]engine.KVEventSource, error) {
			return []engine.KVEventSource{{DPRank: call}}, nil
		}},
		SetupMetricsFailed: {metrics: func(int) (engine.MetricsBindings, error) { return engine.MetricsBindings{}, errBroken }},
		ComponentMetricsNotIdempotent: {metrics: func(call int) (engine.MetricsBindings, error) {
			return engine.MetricsBindings{DPRanks: unstable(call)}, nil
		}},
		GenerateFailed:  {setup: func(int) error { return errBroken }},
		NoChunksYielded: {stream: func(*engine.Request, func(*engine.Chunk, error) bool) {}},
		StreamYieldedError: {stream: func(_ *engine.Request, yield func(*engine.Chunk, error) bool) {
			yield(nil, fault.New(fault.BackendUnknown, "%w", errBroken))
		}},
		NoTerminalChunk: {stream: func(_ *engine.Request, yield func(*engine.Chunk, error) bool) {
			yield(&engine.Chunk{TokenIDs: []uint32{1}}, nil)
		}},
		ChunkAfterTerminal: {stream: func(_ *engine.Request, yield func(*engine.Chunk, error) bool) {
			_ = yield(finished(), nil) && yield(&engine.Chunk{TokenIDs: []uint32{1}}, nil)
		}},
		CompletionTokensMismatch: {usage: 1},
		ConcurrentGenerateFailed: {setup: func(active int) error {
			if active > 3 {
				return errBroken
			}
			return nil
		}},
		CancellationNotObserved: {deaf: true, slow: time.Millisecond},
		CancellationIgnored:     {reason: engine.FinishLength},
		CleanupFailed:           {cleanup: func(bool, int) error { return errBroken }},
		SecondCleanupFailed: {cleanup: func(_ bool, call int) error {
			if call > 1 {
				return errBroken
			}
			return nil
		}},
		DropNotReleased: {keep: true},
		CleanupWithoutStartFailed: {cleanup: func(started bool, _ int) error {
			if !started {
				return errBroken
			}
			return nil
		}},
	}
}

// Each flaw causes the failure with its name, and each name has a flaw.
func TestBrokenEngines(t *testing.T) {
	t.Parallel()
	all := []Name{
		StartFailed, EmptyModelInConfig, KvEventSourcesFailed, KvEventSourcesNotIdempotent, SetupMetricsFailed,
		ComponentMetricsNotIdempotent, GenerateFailed, NoChunksYielded, StreamYieldedError, NoTerminalChunk,
		ChunkAfterTerminal, CompletionTokensMismatch, ConcurrentGenerateFailed, CancellationNotObserved,
		CancellationIgnored, CleanupFailed, SecondCleanupFailed, DropNotReleased, CleanupWithoutStartFailed,
	}
	broken := flaws()
	if len(broken) != len(all) {
		t.Errorf("%d broken engines, want %d", len(broken), len(all))
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, name := range all {
		f, ok := broken[name]
		if !ok {
			t.Errorf("no engine is broken as %s", name)
		}
		wg.Go(func() {
			err := Run(t, func() engine.Engine { return &counter{flaw: f} })
			var failure *Failure
			if !errors.As(err, &failure) || failure.Name != name || !errors.Is(err, name) {
				t.Errorf("failed with %v, want %s", err, name)
			}
		})
	}
}

// Further flaws for the same names.
func TestBrokenOtherwise(t *testing.T) {
	t.Parallel()
	stop := func(rq *engine.Request) bool { return rq.MaxTokens(16) == cancelTokens }
	fine := func(yield func(*engine.Chunk, error) bool) { yield(finished(), nil) }
	tests := []struct {
		what string
		flaw flaw
		want Name
	}{
		{"a panic in Start", flaw{start: func() error { panic("boo") }}, StartFailed},
		{"a panic in Generate", flaw{setup: func(int) error { panic("boo") }}, GenerateFailed},
		{"a panic in the stream", flaw{stream: func(_ *engine.Request, yield func(*engine.Chunk, error) bool) { panic("boo") }}, StreamYieldedError},
		{"an element that is nothing", flaw{stream: func(_ *engine.Request, yield func(*engine.Chunk, error) bool) { yield(nil, nil) }}, StreamYieldedError},
		{"an error after the terminal", flaw{stream: func(_ *engine.Request, yield func(*engine.Chunk, error) bool) {
			_ = yield(finished(), nil) && yield(nil, errBroken)
		}}, ChunkAfterTerminal},
		{"two terminals", flaw{stream: func(_ *engine.Request, yield func(*engine.Chunk, error) bool) {
			fine(yield)
			fine(yield)
		}}, ChunkAfterTerminal},
		{"ends quietly when stopped", flaw{mute: true}, NoChunksYielded},
		{"an error when stopped", flaw{stream: func(rq *engine.Request, yield func(*engine.Chunk, error) bool) {
			if stop(rq) {
				yield(nil, fault.Cancelled)
				return
			}
			fine(yield)
		}}, StreamYieldedError},
		{"no terminal when stopped", flaw{stream: func(rq *engine.Request, yield func(*engine.Chunk, error) bool) {
			if stop(rq) {
				yield(&engine.Chunk{}, nil)
				return
			}
			fine(yield)
		}}, CancellationIgnored},
	}
	for _, test := range tests {
		err := Run(t, func() engine.Engine { return &counter{flaw: test.flaw} })
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %s", test.what, err, test.want)
		}
	}
}

// The kit stops waiting after its patience if a stream never ends or a Cleanup does not return.
func TestPatience(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for want, f := range map[Name]flaw{
		NoTerminalChunk: {stream: func(_ *engine.Request, yield func(*engine.Chunk, error) bool) {
			yield(&engine.Chunk{}, nil)
			<-release
		}},
		CleanupFailed: {cleanup: func(bool, int) error { <-release; return nil }},
		StartFailed:   {start: func() error { <-release; return nil }},
	} {
		if err := Run(t, func() engine.Engine { return &counter{flaw: f} }, WithPatience(100*time.Millisecond)); !errors.Is(err, want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// An engine without flaws passes every check, in their order.
func TestGoodEngine(t *testing.T) {
	var shown []string
	err := Each(t.Context(), func() engine.Engine { return &counter{} }, func(name string, err error) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		shown = append(shown, name)
	})
	if err != nil || !slices.Equal(shown, checkNames()) {
		t.Errorf("%v after %q, want all of %q", err, shown, checkNames())
	}
}

// plain is an engine without optional interfaces and without usage.
type plain struct{ engine.Defaults }

func (plain) Start(context.Context, uint64) (engine.EngineConfig, error) {
	return engine.EngineConfig{Model: "plain"}, nil
}

func (plain) Generate(_ context.Context, _ *engine.Request, rc engine.GenContext) (iter.Seq2[*engine.Chunk, error], error) {
	return func(yield func(*engine.Chunk, error) bool) {
		reason := engine.FinishStop
		if rc.IsStopped() {
			reason = engine.FinishCancelled
		}
		yield(&engine.Chunk{FinishReason: reason}, nil)
	}, nil
}

func (plain) Cleanup(context.Context) error { return nil }

// Checks of missing optional interfaces are skipped and shown as skipped.
func TestSkips(t *testing.T) {
	var skipped []string
	if err := Each(t.Context(), func() engine.Engine { return plain{} }, func(name string, err error) {
		var s *Skipped
		if errors.As(err, &s) {
			skipped = append(skipped, name)
		}
	}); err != nil {
		t.Error(err)
	}
	if want := []string{"descriptors", "bookkeeping", "drop release"}; !slices.Equal(skipped, want) {
		t.Errorf("skipped %q, want %q", skipped, want)
	}
}

// WithRequest adapts the requests for decode workers.
func TestWithRequest(t *testing.T) {
	f := flaw{stream: func(rq *engine.Request, yield func(*engine.Chunk, error) bool) {
		if rq.PrefillResult == nil {
			yield(nil, errBroken)
			return
		}
		yield(&engine.Chunk{FinishReason: engine.FinishCancelled}, nil)
	}}
	if err := Run(t, func() engine.Engine { return &counter{flaw: f} }, WithRequest(func(rq *engine.Request) {
		rq.PrefillResult = &engine.PrefillResult{}
	})); err != nil {
		t.Error(err)
	}
}

func TestFailureText(t *testing.T) {
	for want, f := range map[string]*Failure{
		"bookkeeping: CompletionTokensMismatch{chunked: 3, reported: 4}": {Check: "bookkeeping", Name: CompletionTokensMismatch, Chunked: 3, Reported: 4},
		"cancel in time: CancellationNotObserved{after: 2s}: x":          {Check: "cancel in time", Name: CancellationNotObserved, After: 2 * time.Second, Detail: "x"},
		"start: StartFailed: broken on purpose":                          {Check: "start", Name: StartFailed, Cause: errBroken},
	} {
		if got := f.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if !errors.Is(f, f.Name) || f.Cause != nil && !errors.Is(f, errBroken) {
			t.Errorf("%v: errors.Is does not find its name or cause", f)
		}
	}
}

func TestContexts(t *testing.T) {
	if MockContext().IsStopped() {
		t.Error("a context is further than it should be")
	}
	if id := MockContext().ID(); strings.Count(id, "-") != 4 {
		t.Errorf("id %q, want a UUID", id)
	}
}

// checkNames returns the names of the checks in their order.
func checkNames() []string {
	var names []string
	for _, c := range allChecks() {
		names = append(names, c.name)
	}
	return names
}
