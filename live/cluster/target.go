// Package cluster replays a workload on engines in other processes. The package uses the driver, the collector and
// the report of a replay in real time. Requests are calls over the network instead of calls of workers in this
// process.
//
// Read target.go (a request of the workload as a call), call.go (the times of a call), tokens.go (its prompt),
// failures.go (failed requests), then session.go (the connection to workers) and fleet.go (worker processes that this
// process starts).
package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/sim"
)

// parting is how long a request may continue after the end of the replay before it is killed.
const parting = 500 * time.Millisecond

// patience is how long a request may wait for a worker before the next request arrives.
const patience = 2 * time.Millisecond

// Target serves the requests of a workload by calls. Target implements online.Target.
//
// The recorder receives a request after it has completed. The admission of a request is the time of the worker's
// prologue. Each token has the time when its frame was read. For a failed request only the arrival is recorded.
type Target struct {
	engines engine.Target
	tokens  *tokens
	model   string
	rec     *online.Recorder
	clock   *online.Clock
}

// NewTarget returns a target for the requests of w, served by the workers of s.
func NewTarget(w *loadgen.Workload, s *Session, rec *online.Recorder, clock *online.Clock) *Target {
	return &Target{engines: s.engines, tokens: newTokens(w), model: s.model, rec: rec, clock: clock}
}

// Serve sends q and reads the answer to its end. The end of ctx stops the request.
func (t *Target) Serve(ctx context.Context, q *sim.Request, placed func()) error {
	rc := cancel.New("")
	call, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	over := make(chan struct{})
	stay := context.AfterFunc(ctx, func() { cancel.StopThenKill(rc, over, parting) })
	err := t.serveCall(call, rc, q, placed)
	close(over)
	stay()
	if ctx.Err() != nil && err != nil {
		return ctx.Err()
	}
	return err
}

func (t *Target) serveCall(ctx context.Context, rc cancel.Context, q *sim.Request, placed func()) error {
	c := &call{placed: placed}
	// If the router holds the request back, later requests are not delayed.
	held := time.AfterFunc(patience, placed)
	defer held.Stop()
	ctx = route.WithSession(route.Observe(ctx, c), strconv.Itoa(int(q.Session)))
	chunks, err := t.engines.Generate(ctx, rc, t.makeRequest(q), nil)
	if err != nil {
		return c.wrapError(0, err)
	}
	var f facts
	for chunk, err := range chunks {
		if err != nil {
			return c.wrapError(len(f.tokens), err)
		}
		f.addChunk(chunk, t.clock.At(c.readAt()))
	}
	if err := f.checkComplete(q); err != nil {
		return c.wrapError(len(f.tokens), err)
	}
	admitted, reused := c.admission()
	t.rec.Admitted(t.clock.At(admitted), q.ID, reused)
	for i, at := range f.tokens {
		t.rec.Token(at, q.ID, i == len(f.tokens)-1)
	}
	return nil
}

// makeRequest converts q to a request for engines.
func (t *Target) makeRequest(q *sim.Request) *engine.Request {
	ignore, expected := true, uint32(q.OutputTokens)
	rq := &engine.Request{
		Model: t.model, TokenIDs: t.tokens.promptOf(q),
		StopConditions: engine.StopConditions{IgnoreEOS: &ignore},
		Routing:        &engine.Routing{ExpectedOutputTokens: &expected},
	}
	rq.SetMaxTokens(expected)
	return rq
}

// facts are the tokens and the end of one answer.
type facts struct {
	tokens []sim.Time // time of each token
	reason engine.FinishReason
}

func (f *facts) addChunk(c *engine.Chunk, at sim.Time) {
	for range c.TokenIDs {
		f.tokens = append(f.tokens, at)
	}
	if c.FinishReason != "" {
		f.reason = c.FinishReason
	}
}

// checkComplete returns an error if the answer is incomplete.
func (f *facts) checkComplete(q *sim.Request) error {
	message, bad := f.reason.ErrorMessage()
	switch {
	case bad:
		return fault.New(fault.Unknown, "%s", message)
	case f.reason == "":
		return fault.New(fault.BackendStreamIncomplete, "the answer ended without a last chunk")
	case f.reason == engine.FinishCancelled:
		return fault.New(fault.Cancelled, "cancelled by the worker")
	case len(f.tokens) != q.OutputTokens:
		return fault.New(fault.Unknown, "%d tokens, must be %d", len(f.tokens), q.OutputTokens)
	}
	return nil
}

// workerError is the error of an incomplete answer, with its worker.
type workerError struct {
	instance uint64
	tokens   int
	err      error
}

func (e *workerError) Error() string {
	return fmt.Sprintf("worker %x after %d tokens: %v", e.instance, e.tokens, e.err)
}

func (e *workerError) Unwrap() error { return e.err }

// typeOf returns the type of an error.
func typeOf(err error) fault.Type {
	var typed *fault.Error
	if errors.As(err, &typed) {
		return typed.Type
	}
	return fault.Unknown
}
