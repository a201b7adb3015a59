package mocker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/conformance"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/rendezvous"
	"github.com/replay-llm/replay/replay/engineargs"
)

// pair starts a prefill and a decode worker. meet adds the data for both workers to a request.
func pair(t *testing.T) (prefill, decode *Engine, meet func(*engine.Request) *engine.Request) {
	t.Helper()
	a := quick(engineargs.VLLM)
	a.TransferGBPerSecond, a.KVBytesPerToken = 1, 100_000 // 10 ms for 100 tokens
	prefill, err := New(Options{Engine: a, Mode: engine.Prefill, BootstrapHost: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := prefill.Start(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = prefill.Cleanup(context.Background()) })
	if c.BootstrapHost != "127.0.0.1" || c.BootstrapPort == 0 {
		t.Fatalf("advertised %s and %d", c.BootstrapHost, c.BootstrapPort)
	}
	decode = start(t, Options{Engine: quick(engineargs.VLLM), Mode: engine.Decode, Rendezvous: rendezvous.Options{Wait: hang}})
	return prefill, decode, func(rq *engine.Request) *engine.Request {
		rq.BootstrapInfo = &engine.BootstrapInfo{Host: c.BootstrapHost, Port: uint16(c.BootstrapPort), Room: 7}
		rq.PrefillResult = &engine.PrefillResult{DisaggregatedParams: json.RawMessage(`{}`)}
		return rq
	}
}

// The decode worker waits for the prefill worker and for the transfer of the KV cache. Either worker may start first.
func TestMeet(t *testing.T) {
	for _, decodeFirst := range []bool{true, false} {
		prefill, decode, meet := pair(t)
		first, second := func() { serve(t, prefill, meet(ask(words(0, 100), 1)), 1) }, func() { serve(t, decode, meet(ask(words(0, 100), 5)), 5) }
		if decodeFirst {
			first, second = second, first
		}
		began := time.Now()
		done := make(chan struct{})
		go func() { defer close(done); first() }()
		if !decodeFirst {
			<-done
		}
		second()
		<-done
		if took := time.Since(began); took < 10*time.Millisecond {
			t.Errorf("decode first %v: done after %v, want the transfer's 10 ms at least", decodeFirst, took)
		}
	}
}

func serve(t *testing.T, e *Engine, rq *engine.Request, want int) {
	if tokens, last, err := answer(e, rq, conformance.MockContext(), nil); err != nil || len(tokens) != want || last == nil {
		t.Errorf("%d tokens, last %+v, error %v, want %d", len(tokens), last, err, want)
	}
}

// If no prefill worker comes, the request at the decode worker times out, or ends when it is stopped.
func TestNobodyToMeet(t *testing.T) {
	_, decode, meet := pair(t)
	rc := conformance.MockContext()
	time.AfterFunc(20*time.Millisecond, rc.Stop)
	if _, last, err := answer(decode, meet(ask(words(0, 10), 5)), rc, nil); err != nil || last == nil || last.FinishReason != engine.FinishCancelled {
		t.Errorf("stopped: last %+v, error %v", last, err)
	}
	_, _, meet = pair(t) // a room that no worker has left
	decode = start(t, Options{Engine: quick(engineargs.VLLM), Mode: engine.Decode, Rendezvous: rendezvous.Options{Wait: 50 * time.Millisecond}})
	rq := meet(ask(words(0, 10), 5))
	rq.BootstrapInfo.Room = 8 // the server may still hold a waiting worker in the other room
	if _, _, err := answer(decode, rq, conformance.MockContext(), nil); !errors.Is(err, fault.BackendResponseTimeout) {
		t.Errorf("nobody: error %v", err)
	}
}

// If SGLang aborts a request because memory is short, the stream ends with an error that has the reason. The engine
// serves the concurrent request, and the next request.
func TestAborted(t *testing.T) {
	a := quick(engineargs.SGLang)
	a.BlockTokens, a.Blocks = 1, 1000
	a.SGLang.Window, a.SGLang.WindowShare = 16, 0.1
	e := start(t, Options{Engine: a})
	beside := make(chan struct{})
	go func() { defer close(beside); serve(t, e, ask(words(5000, 8), 8), 8) }()
	tokens, last, err := answer(e, ask(words(0, 20), 400), conformance.MockContext(), nil)
	if !errors.Is(err, fault.BackendUnknown) || !strings.Contains(err.Error(), "SGLang aborts it") || last != nil {
		t.Errorf("last %+v, error %v, want the reason of the abort", last, err)
	}
	if len(tokens) == 0 || len(tokens) >= 400 {
		t.Errorf("%d tokens before the abort, want some of 400", len(tokens))
	}
	<-beside
	serve(t, e, ask(words(0, 20), 8), 8)
	drained(t, e)
}
