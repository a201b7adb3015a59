// Package cluster replays a workload on engines that are served elsewhere: the
// driver, the collector and the report of a replay in real time, with calls over
// the network instead of workers of this process.
//
// Read target.go (a request of the workload as a call), call.go (when what was read), tokens.go (its prompt),
// failures.go (requests that did not complete), then session.go (the connection to workers) and fleet.go
// (worker processes that this process starts).
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

// parting is how long a request may take to end in good order once the replay is
// over; then it is killed.
const parting = 500 * time.Millisecond

// patience is how long a request may look for a worker before the next one does.
const patience = 2 * time.Millisecond

// Target serves the requests of a workload by calls. It is an online.Target.
//
// The recorder receives a request once it has completed: admitted with the worker's prologue, a token when its
// frame was read. One that ends with an error leaves no more than its arrival.
type Target struct {
	engines engine.Target
	tokens  *tokens
	model   string
	rec     *online.Recorder
	clock   *online.Clock
}

// NewTarget returns a target of the requests of w, which the workers of s answer.
func NewTarget(w *loadgen.Workload, s *Session, rec *online.Recorder, clock *online.Clock) *Target {
	return &Target{engines: s.engines, tokens: newTokens(w), model: s.model, rec: rec, clock: clock}
}

// Serve asks for q and reads the answer to its end. The end of ctx stops the
// request.
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
	// A router that holds the request back does not delay later requests.
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

// makeRequest is q as engines take it.
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

// facts have the known facts of one answer.
type facts struct {
	tokens []sim.Time // when each was read
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

// checkComplete is why an answer that has ended is not complete.
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

// workerError is an answer that did not complete, with its worker.
type workerError struct {
	instance uint64
	tokens   int
	err      error
}

func (e *workerError) Error() string {
	return fmt.Sprintf("worker %x after %d tokens: %v", e.instance, e.tokens, e.err)
}

func (e *workerError) Unwrap() error { return e.err }

// typeOf is the type of an error.
func typeOf(err error) fault.Type {
	var typed *fault.Error
	if errors.As(err, &typed) {
		return typed.Type
	}
	return fault.Unknown
}
