package mocker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"testing"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/replay/engineargs"
)

// served is a mocker on a worker, called over TCP.
type served struct {
	engine  *Engine
	remote  *engine.Remote
	metrics *telemetry.Metrics
	end     func() // ends the worker like a SIGTERM
}

func onWorker(t *testing.T, kind engineargs.Engine) served {
	t.Helper()
	e, err := New(Options{Engine: quick(kind)})
	if err != nil {
		t.Fatal(err)
	}
	config := drttest.Start(t).Config()
	signals, ready, done := make(chan os.Signal, 1), make(chan struct{}), make(chan error, 1)
	m := telemetry.NewMetrics()
	go func() {
		done <- engine.Run(e, engine.WorkerConfig{
			Runtime: &config, Ready: func(engine.Ready) error { close(ready); return nil }, Signals: signals, Metrics: m, Log: slog.New(slog.DiscardHandler),
			Getenv: func(name string) string {
				return map[string]string{"DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS": "0"}[name]
			},
			Exit: func(code int) { panic(fmt.Sprintf("exit %d", code)) },
		})
	}()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	client := drttest.Client(t, drttest.Connect(t, config), "dynamo.backend.generate")
	end := sync.OnceFunc(func() {
		signals <- syscall.SIGTERM
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	return served{e, engine.NewRemote(client, drt.RoundRobin()), m, end}
}

// 200 concurrent requests over TCP get exactly their tokens and the right usage. No request is left.
func TestOverTCP(t *testing.T) {
	const requests, tokens = 200, 64
	for _, kind := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang, engineargs.TRTLLM} {
		s := onWorker(t, kind)
		var wg sync.WaitGroup
		for i := range requests {
			wg.Go(func() {
				chunks, err := s.remote.Generate(t.Context(), cancel.New(""), ask(words(50*i, 40), tokens), nil)
				if err != nil {
					t.Errorf("%v: request %d: %v", kind, i, err)
					return
				}
				var last *engine.Chunk
				got := 0
				for c, err := range chunks {
					if err != nil {
						t.Errorf("%v: request %d: %v", kind, i, err)
						return
					}
					got += len(c.TokenIDs)
					last = c
				}
				if got != tokens || last.FinishReason != engine.FinishLength {
					t.Errorf("%v: request %d has %d tokens and ends with %q", kind, i, got, string(last.FinishReason))
				}
				if u := last.CompletionUsage; u == nil || u.PromptTokens != 40 || u.CompletionTokens != tokens || u.TotalTokens != 40+tokens {
					t.Errorf("%v: request %d counts %+v", kind, i, u)
				}
			})
		}
		wg.Wait()
		s.end()
		if left := s.engine.ActiveRequests(); left != 0 {
			t.Errorf("%v: %d requests are left", kind, left)
		}
		if got := s.metrics.Value("dynamo_component_requests_total", nil); got != requests {
			t.Errorf("%v: %v requests were counted, want %d", kind, got, requests)
		}
		if got := s.metrics.Value("dynamo_component_cancellation_total", nil); got != 0 {
			t.Errorf("%v: %v cancellations were counted, want none", kind, got)
		}
	}
}

// After a stop over TCP, the terminal has the reason cancelled and the number of tokens. After a kill, no chunk
// follows. Each stop or kill is counted once.
func TestCancelOverTCP(t *testing.T) {
	for _, kind := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang, engineargs.TRTLLM} {
		s := onWorker(t, kind)
		for _, kill := range []bool{false, true} {
			rc := cancel.New("")
			chunks, err := s.remote.Generate(t.Context(), rc, ask(words(0, 40), 8000), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, after := 0, 0
			var last *engine.Chunk
			for c, err := range chunks {
				if err != nil {
					t.Fatal(err)
				}
				got += len(c.TokenIDs)
				if last = c; rc.IsKilled() {
					after++
				}
				switch {
				case got == 5 && kill:
					rc.Kill()
				case got == 5:
					rc.Stop()
				}
			}
			switch {
			case kill && after > 0:
				t.Errorf("%v: %d chunks after a kill", kind, after)
			case !kill && (last.FinishReason != engine.FinishCancelled || last.CompletionUsage == nil || int(last.CompletionUsage.CompletionTokens) != got):
				t.Errorf("%v: stopped with %d tokens, the terminal is %+v with usage %+v", kind, got, last, last.CompletionUsage)
			}
		}
		s.end()
		if left := s.engine.ActiveRequests(); left != 0 {
			t.Errorf("%v: %d requests are left", kind, left)
		}
		if got := s.metrics.Value("dynamo_component_cancellation_total", nil); got != 2 {
			t.Errorf("%v: %v cancellations were counted, want 2", kind, got)
		}
	}
}

// A request that the mocker refuses has the same error type over TCP.
func TestRefusedOverTCP(t *testing.T) {
	s := onWorker(t, engineargs.VLLM)
	_, err := s.remote.Generate(t.Context(), cancel.New(""), ask(words(0, 9000), 4), nil)
	var typed *engine.Error
	if !errors.As(err, &typed) || typed.Type != fault.BackendInvalidArgument {
		t.Errorf("a prompt longer than the context: %v", err)
	}
}
