package conformance

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
)

// mockContext is a GenContext without a worker.
type mockContext struct{ cancel.Context }

func (mockContext) NotifyFirstToken()           {}
func (mockContext) Metadata() map[string]string { return map[string]string{} }

// MockContext returns a context for tests that call Generate directly. The test stops and kills the context.
func MockContext() engine.GenContext { return mockContext{cancel.New("")} }

// element is one element of a stream.
type element struct {
	chunk *engine.Chunk
	err   error
}

func (e element) isTerminal() bool {
	return e.err != nil || e.chunk == nil || e.chunk.FinishReason != ""
}

// stream is a request in an engine.
type stream struct {
	rc      engine.GenContext
	chunks  iter.Seq2[*engine.Chunk, error]
	release func() // ends ctx and the watch of rc
}

// openStream calls Generate like a worker: ctx ends with the stream, and a stop of the request calls Abort.
func (k *kit) openStream(ctx context.Context, rq *engine.Request) (s stream, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	rc := MockContext()
	ctx, end := context.WithCancel(cancel.With(ctx, rc))
	chunks, err := k.engine.Generate(ctx, rq, rc)
	if err == nil && chunks == nil {
		err = fmt.Errorf("neither a sequence nor an error")
	}
	if err != nil {
		end()
		return stream{}, err
	}
	watched := make(chan struct{})
	go watchStop(ctx, k.engine, rc, watched)
	return stream{rc, chunks, func() {
		end()
		select {
		case <-watched:
		case <-time.After(abortPatience):
		}
	}}, nil
}

// abortPatience is how long to wait for an Abort, which must not block.
const abortPatience = time.Second

// watchStop calls Abort when the request is stopped.
func watchStop(ctx context.Context, e engine.Engine, rc cancel.Context, done chan<- struct{}) {
	defer close(done)
	defer func() { _ = recover() }() // the stream shows whether the Abort works
	select {
	case <-rc.Stopped():
		e.Abort(rc)
	case <-ctx.Done():
	}
}

// drainAll reads all elements, also after a terminal. After patience, drainAll returns false and the elements so far.
func (s stream) drainAll(patience time.Duration) (all []element, ended bool) {
	come := make(chan element)
	go func() {
		defer close(come)
		defer s.release()
		for e := range s.allElements() {
			come <- e
		}
	}()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case e, more := <-come:
			if !more {
				return all, true
			}
			all = append(all, e)
		case <-limit.C:
			go func() {
				for range come {
				}
			}()
			s.rc.Kill()
			s.release()
			return all, false
		}
	}
}

// allElements returns the stream, with a panic of the engine as its last element.
func (s stream) allElements() iter.Seq[element] {
	return func(yield func(element) bool) {
		taken := true
		defer func() {
			if p := recover(); p != nil && taken {
				yield(element{err: fmt.Errorf("panic: %v", p)})
			}
		}()
		for c, err := range s.chunks {
			if taken = yield(element{c, err}); !taken {
				return
			}
		}
	}
}

// judgeStream returns the failure of a stream that was read, or nil.
func judgeStream(all []element, ended bool, patience time.Duration) *Failure {
	if len(all) == 0 && ended {
		return newFailure(NoChunksYielded, nil, "the stream ended with nothing in it")
	}
	for i, e := range all {
		switch {
		case e.err != nil && i > 0 && all[i-1].isTerminal():
			return newFailure(ChunkAfterTerminal, e.err, "an error after the terminal, which was element %d", i)
		case e.err != nil:
			return newFailure(StreamYieldedError, e.err, "element %d", i+1)
		case e.chunk == nil:
			return newFailure(StreamYieldedError, nil, "element %d is neither a chunk nor an error", i+1)
		case e.isTerminal() && i+1 < len(all):
			if next := all[i+1]; next.err == nil {
				return newFailure(ChunkAfterTerminal, nil, "%d elements after the terminal, which was element %d", len(all)-i-1, i+1)
			}
		}
	}
	if len(all) > 0 && all[len(all)-1].isTerminal() {
		return nil
	}
	if !ended {
		return newFailure(NoTerminalChunk, nil, "none within %v, after %d chunks", patience, len(all))
	}
	return newFailure(NoTerminalChunk, nil, "the stream ended after %d chunks, none with a finish_reason", len(all))
}
