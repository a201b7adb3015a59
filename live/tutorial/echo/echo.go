// Command echo is the engine of docs/runtime.md. The engine answers with the tokens of the prompt, one after the
// other.
package main

import (
	"context"
	"flag"
	"iter"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
)

// Echo is an engine that answers with the tokens of the prompt.
type Echo struct {
	engine.Defaults

	model string
	pace  time.Duration // time between two tokens

	mu     sync.Mutex
	up     bool
	active int
	quiet  sync.Cond // signalled when active becomes 0
}

// New returns an engine that is not started.
func New(model string, pace time.Duration) *Echo {
	e := &Echo{model: model, pace: pace}
	e.quiet.L = &e.mu
	return e
}

// FromArgs returns the engine and the worker configuration of a command line.
func FromArgs(args []string) (*Echo, engine.WorkerConfig, error) {
	var c engine.WorkerConfig
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	model := flags.String("model", "echo", "name of the model")
	pace := flags.Duration("pace", 5*time.Millisecond, "time between two tokens")
	flags.StringVar(&c.Namespace, "namespace", "", "namespace of the worker")
	if err := flags.Parse(args); err != nil {
		return nil, c, err
	}
	return New(*model, *pace), c, nil
}

// Start makes the engine ready for requests.
func (e *Echo) Start(context.Context, uint64) (engine.EngineConfig, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.up {
		return engine.EngineConfig{}, fault.New(fault.BackendEngineShutdown, "echo: it has started already")
	}
	e.up = true
	return engine.EngineConfig{Model: e.model, ContextLength: 4096}, nil
}

// Generate answers one request.
func (e *Echo) Generate(ctx context.Context, rq *engine.Request, rc engine.GenContext) (iter.Seq2[*engine.Chunk, error], error) {
	if len(rq.TokenIDs) == 0 {
		return nil, fault.New(fault.BackendInvalidArgument, "echo: the prompt is empty, must be at least one token")
	}
	return func(yield func(*engine.Chunk, error) bool) {
		if !e.countIn() {
			yield(nil, fault.New(fault.BackendEngineShutdown, "echo: it is not running"))
			return
		}
		defer e.countOut()
		e.yieldAnswer(ctx, rq, rc, yield)
	}, nil
}

// yieldAnswer yields one token after another, and then the finish reason.
func (e *Echo) yieldAnswer(ctx context.Context, rq *engine.Request, rc engine.GenContext, yield func(*engine.Chunk, error) bool) {
	reason, sent := engine.FinishLength, uint32(0)
	for limit := rq.MaxTokens(16); sent < limit; sent++ {
		select {
		case <-ctx.Done():
			return // the consumer has left
		case <-time.After(e.pace):
		case <-rc.Stopped():
		}
		if rc.IsStopped() {
			reason = engine.FinishCancelled
			break
		}
		token := rq.TokenIDs[int(sent)%len(rq.TokenIDs)]
		if !yield(&engine.Chunk{TokenIDs: []uint32{token}}, nil) {
			return
		}
	}
	yield(&engine.Chunk{
		FinishReason:    reason,
		CompletionUsage: engine.NewUsage(uint32(len(rq.TokenIDs)), sent),
	}, nil)
}

// countIn adds a request to the active requests. countIn reports false if the engine is not running.
func (e *Echo) countIn() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.up {
		e.active++
	}
	return e.up
}

// countOut removes a request from the active requests.
func (e *Echo) countOut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.active--; e.active == 0 {
		e.quiet.Broadcast()
	}
}

// ActiveRequests returns the number of requests in flight.
func (e *Echo) ActiveRequests() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.active
}

// Drain waits for the requests in flight.
func (e *Echo) Drain(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.quiet.Broadcast()
	})()
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.active > 0 && ctx.Err() == nil {
		e.quiet.Wait()
	}
	return ctx.Err()
}

// Cleanup stops the engine. Cleanup does nothing if it is called again or without Start.
func (e *Echo) Cleanup(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.up = false
	return nil
}
