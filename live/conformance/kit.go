// Package conformance checks that an engine follows the contract of engine.Engine. Call Run from the engine's tests:
//
//	func TestConformance(t *testing.T) {
//		if err := conformance.Run(t, func() engine.Engine { return New() }); err != nil {
//			t.Fatal(err)
//		}
//	}
//
// Run the test with -race: without -race, the check of concurrency finds fewer errors.
//
// Read kit.go, which has the names of failures, then checks.go and stream.go.
package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/replay-llm/replay/live/engine"
)

// T is the part of *testing.T that Run uses.
type T interface {
	Helper()
	Logf(format string, args ...any)
}

// Option changes how engines are checked.
type Option func(*kit)

// WithRequest changes the requests of the kit, for example for decode workers, which require a prefill result.
func WithRequest(change func(*engine.Request)) Option {
	return func(k *kit) { k.change = change }
}

// WithPatience sets the timeout of all calls without a separate limit; default one minute.
func WithPatience(d time.Duration) Option {
	return func(k *kit) { k.patience = d }
}

// kit is one run of the checks.
type kit struct {
	factory  func() engine.Engine
	change   func(*engine.Request)
	patience time.Duration

	engine engine.Engine // the engine of most checks
	chunks []element     // elements of checkSingle
	last   []element     // elements of checkCancelInTime
}

// check is a check with its name.
type check struct {
	name string
	run  func(*kit, context.Context) error
}

// allChecks returns the checks in their order.
func allChecks() []check {
	return []check{
		{"start", (*kit).checkStart},
		{"descriptors", (*kit).checkDescriptors},
		{"single", (*kit).checkSingle},
		{"bookkeeping", (*kit).checkUsage},
		{"concurrent", (*kit).checkConcurrent},
		{"cancel in time", (*kit).checkCancelInTime},
		{"cancel reason", (*kit).checkCancelReason},
		{"cleanup", (*kit).checkCleanup},
		{"drop release", (*kit).checkDropRelease},
		{"cleanup unstarted", (*kit).checkCleanupUnstarted},
	}
}

// Run checks the engines that factory returns, which must be new and not started. Run returns the first failure as a
// *Failure, or nil.
func Run(t T, factory func() engine.Engine, options ...Option) error {
	t.Helper()
	return Each(context.Background(), factory, func(name string, err error) {
		if err == nil {
			t.Logf("%s: ok", name)
		} else {
			t.Logf("%v", err)
		}
	}, options...)
}

// Each is Run for callers that are not tests. Each calls show after every check. A check that does not apply has an
// error of type *Skipped, which is not a failure.
func Each(ctx context.Context, factory func() engine.Engine, show func(name string, err error), options ...Option) error {
	k := &kit{factory: factory, change: func(*engine.Request) {}, patience: time.Minute}
	for _, o := range options {
		o(k)
	}
	for _, c := range allChecks() {
		err := c.run(k, ctx)
		if f, ok := err.(*Failure); ok {
			f.Check = c.name
			show(c.name, f)
			k.cleanUpEngine(ctx)
			return f
		}
		show(c.name, err)
	}
	return nil
}

// cleanUpEngine calls Cleanup after a failure and ignores its error.
func (k *kit) cleanUpEngine(ctx context.Context) {
	if k.engine != nil {
		_ = k.callGuarded(ctx, k.engine.Cleanup)
	}
}

// callGuarded calls a method of an engine. callGuarded returns an error if the method panics or does not return
// within the kit's patience.
func (k *kit) callGuarded(ctx context.Context, call func(context.Context) error) error {
	_, err := callWithin(ctx, k.patience, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, call(ctx)
	})
	return err
}

// callWithin is callGuarded for a call that returns a value.
func callWithin[V any](ctx context.Context, patience time.Duration, call func(context.Context) (V, error)) (V, error) {
	type result struct {
		value V
		err   error
	}
	ctx, release := context.WithTimeout(ctx, patience)
	defer release()
	results := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("panic: %v", p)
			}
			results <- r
		}()
		r.value, r.err = call(ctx)
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		var none V
		return none, fmt.Errorf("did not return within %v: %w", patience, context.Cause(ctx))
	}
}

// newRequest returns a request of the kit.
func (k *kit) newRequest() *engine.Request {
	rq := &engine.Request{TokenIDs: []uint32{1, 2, 3}}
	k.change(rq)
	return rq
}

// Name is the name of a failure. Name is an error, so that errors.Is finds it in the error of Run.
type Name string

// Names of failures.
const (
	StartFailed                   Name = "StartFailed"
	EmptyModelInConfig            Name = "EmptyModelInConfig"
	KvEventSourcesFailed          Name = "KvEventSourcesFailed"
	KvEventSourcesNotIdempotent   Name = "KvEventSourcesNotIdempotent"
	SetupMetricsFailed            Name = "SetupMetricsFailed"
	ComponentMetricsNotIdempotent Name = "ComponentMetricsNotIdempotent"
	GenerateFailed                Name = "GenerateFailed"
	NoChunksYielded               Name = "NoChunksYielded"
	StreamYieldedError            Name = "StreamYieldedError"
	NoTerminalChunk               Name = "NoTerminalChunk"
	ChunkAfterTerminal            Name = "ChunkAfterTerminal"
	CompletionTokensMismatch      Name = "CompletionTokensMismatch"
	ConcurrentGenerateFailed      Name = "ConcurrentGenerateFailed"
	CancellationNotObserved       Name = "CancellationNotObserved"
	CancellationIgnored           Name = "CancellationIgnored"
	CleanupFailed                 Name = "CleanupFailed"
	SecondCleanupFailed           Name = "SecondCleanupFailed"
	DropNotReleased               Name = "DropNotReleased"
	CleanupWithoutStartFailed     Name = "CleanupWithoutStartFailed"
)

// Error returns the name.
func (n Name) Error() string { return string(n) }

// Failure is a violation of the contract.
type Failure struct {
	Check  string // the check that failed
	Name   Name
	Detail string
	Cause  error // the error of the engine, if any

	Chunked, Reported uint64        // CompletionTokensMismatch: tokens in chunks and in the usage
	After             time.Duration // CancellationNotObserved: how long the kit waited
}

// Error returns the check, the name and the details.
func (f *Failure) Error() string {
	text := f.Check + ": " + string(f.Name)
	switch f.Name {
	case CompletionTokensMismatch:
		text += fmt.Sprintf("{chunked: %d, reported: %d}", f.Chunked, f.Reported)
	case CancellationNotObserved:
		text += fmt.Sprintf("{after: %v}", f.After)
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	if f.Cause != nil {
		text += ": " + f.Cause.Error()
	}
	return text
}

// Unwrap returns the error of the engine.
func (f *Failure) Unwrap() error { return f.Cause }

// Is reports whether target is the failure's name.
func (f *Failure) Is(target error) bool {
	n, ok := target.(Name)
	return ok && n == f.Name
}

// Skipped is why a check does not apply.
type Skipped struct{ Why string }

func (s *Skipped) Error() string { return "skipped: " + s.Why }

// newFailure returns a failure with the error of the engine.
func newFailure(name Name, cause error, format string, args ...any) *Failure {
	return &Failure{Name: name, Cause: cause, Detail: fmt.Sprintf(format, args...)}
}
