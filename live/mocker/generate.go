package mocker

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/replay-llm/replay/internal/bell"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/rendezvous"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
)

// naturalTokens is the length of an answer without a limit. The finish reason of such an answer is EOS, as if a model
// had ended the answer.
const naturalTokens = 16

// Generate schedules a request when the caller begins to read its sequence.
func (e *Engine) Generate(ctx context.Context, rq *engine.Request, rc engine.GenContext) (iter.Seq2[*engine.Chunk, error], error) {
	g := &generation{engine: e, ctx: ctx, rq: rq, rc: rc}
	g.limitTokens()
	if e.stage.Role == scheduler.Prefill {
		g.max, g.why = min(g.max, 1), engine.FinishLength
	}
	if err := g.checkRequest(); err != nil {
		return nil, err
	}
	if g.id = rc.ID(); !cancel.IsID(g.id) {
		g.id = cancel.NewID()
	}
	if err := g.seedTokens(); err != nil {
		return nil, err
	}
	return g.yieldChunks, nil
}

// limitTokens sets the length of the answer and the reason of its end.
func (g *generation) limitTokens() {
	g.max, g.why = int(g.rq.MaxTokens(naturalTokens)), engine.FinishLength
	if g.rq.StopConditions.MaxTokens != nil {
		return
	}
	left := max(1, g.engine.options.ContextLength-len(g.rq.TokenIDs))
	if s := &g.rq.StopConditions; s.IgnoreEOS != nil && *s.IgnoreEOS {
		g.max = left
	} else {
		g.why = engine.FinishEOS
		if s.MinTokens != nil {
			g.max = max(g.max, int(min(*s.MinTokens, math.MaxInt32)))
		}
	}
	if g.max >= left {
		g.max, g.why = left, engine.FinishLength
	}
}

// seedTokens seeds the draw of tokens with the prompt, and the seed or the id of the request. At temperature 0,
// seedTokens uses the prompt only. A request that is continued on another worker with its tokens so far gets the same
// answer.
func (g *generation) seedTokens() error {
	var options struct {
		Seed        *int64   `json:"seed"`
		Temperature *float64 `json:"temperature"`
	}
	if raw := g.rq.SamplingOptions; len(raw) > 0 {
		if err := json.Unmarshal(raw, &options); err != nil {
			return fault.New(fault.BackendInvalidArgument, "sampling_options: %w", err)
		}
	}
	switch {
	case options.Temperature != nil && *options.Temperature == 0:
		g.draw.seed = 0
	case options.Seed != nil:
		g.draw.seed = blockhash.Chain(1, uint64(*options.Seed))
	default:
		g.draw.seed = blockhash.Bytes([]byte(g.id))
	}
	for _, t := range g.rq.TokenIDs {
		g.draw.add(t)
	}
	return nil
}

// generation is one request from Generate to its last chunk.
type generation struct {
	engine *Engine
	ctx    context.Context
	rq     *engine.Request
	rc     engine.GenContext
	id     string
	max    int                 // tokens of the answer
	why    engine.FinishReason // reason of an end at max tokens
	draw   sampler

	stream *stream
	tokens []uint32 // tokens yielded so far
	reused int
}

// checkRequest returns an error for a request that can never be served.
func (g *generation) checkRequest() error {
	e, n := g.engine, len(g.rq.TokenIDs)
	switch {
	case n == 0:
		return fault.New(fault.BackendInvalidArgument, "token_ids is empty, must be at least one token")
	case n > e.options.ContextLength:
		return fault.New(fault.BackendInvalidArgument, "token_ids has %d tokens, must have at most %d", n, e.options.ContextLength)
	case e.stage.Role == scheduler.Decode && g.rq.PrefillResult == nil && !g.rq.HealthCheck:
		return fault.New(fault.BackendInvalidArgument, "prefill_result is missing, must be one on a decode worker")
	}
	if err := e.stage.Fits(n, max(g.max, 1)); err != nil {
		return fault.New(fault.BackendInvalidArgument, "request can never run: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.whyDown()
}

// whyDown returns the error if the mocker cannot serve requests. e.mu is held.
func (e *Engine) whyDown() error {
	if e.worker == nil && e.broken == nil {
		return fault.New(fault.BackendEngineShutdown, "mocker is not running")
	}
	return e.broken
}

// yieldChunks yields a chunk per token. The last token is in the terminal.
func (g *generation) yieldChunks(yield func(*engine.Chunk, error) bool) {
	switch {
	case g.rc.IsStopped():
		yield(g.newTerminal(engine.FinishCancelled), nil)
		return
	case g.max == 0:
		yield(g.newTerminal(engine.FinishLength), nil)
		return
	}
	if err := g.awaitPrefill(); err != nil {
		if g.rc.IsStopped() {
			yield(g.newTerminal(engine.FinishCancelled), nil)
		} else if g.ctx.Err() == nil {
			yield(nil, err)
		}
		return
	}
	leave, err := g.submitRequest()
	if err != nil {
		yield(nil, err)
		return
	}
	defer leave()
	defer context.AfterFunc(g.ctx, g.stream.notify.Ring)()
	for g.yieldNext(yield) {
	}
}

// awaitPrefill waits for the prefill worker, if the request names one.
func (g *generation) awaitPrefill() error {
	at := g.rq.BootstrapInfo
	if g.engine.stage.Role != scheduler.Decode || at == nil {
		return nil
	}
	ctx, end := cancel.WithStop(g.ctx, g.rc)
	defer end()
	return rendezvous.Await(ctx, at.Host, at.Port, at.Room, g.engine.options.Rendezvous)
}

// submitRequest adds the request to the scheduler. leave removes the request.
func (g *generation) submitRequest() (leave func(), err error) {
	e := g.engine
	q := &sim.Request{ID: sim.RequestID(e.ids.Add(1)), InputTokens: len(g.rq.TokenIDs), OutputTokens: g.max}
	g.stream = &stream{rc: g.rc, notify: bell.New()}
	if e.rooms != nil && g.rq.BootstrapInfo != nil {
		g.stream.room = &g.rq.BootstrapInfo.Room
	}
	adapter := g.adapter()
	for block := range slices.Chunk(g.rq.TokenIDs, e.tree.BlockTokens()) { // the last block may be partial
		hash := blockhash.Tokens(block)
		if adapter != "" {
			hash = blockhash.Chain(blockhash.Bytes([]byte(adapter)), hash)
		}
		g.stream.hashes = append(g.stream.hashes, hash)
	}
	if e.texts != nil {
		g.stream.text = &text{tokens: slices.Clone(g.rq.TokenIDs), draw: g.draw, lora: adapter, hashes: g.stream.hashes}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.whyDown(); err != nil {
		return nil, err
	}
	if most := e.options.MaxWaiting; most > 0 && e.countWaiting() >= most {
		return nil, fault.New(fault.ResourceExhausted, "mocker: %w", ErrQueueFull)
	}
	e.streams[q.ID] = g.stream
	g.stream.course = course{prompt: q.InputTokens, limit: g.max, came: e.clock.Now(), why: g.why, adapter: adapter, local: g.rq.Local}
	e.worker.Submit(q)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.streams[q.ID] != nil && e.worker != nil {
			e.worker.Cancel(q.ID)
		}
	}, nil
}

// countWaiting returns how many requests wait to be admitted or readmitted. e.mu is held.
func (e *Engine) countWaiting() (n int) {
	for _, s := range e.streams { // the order is irrelevant for a count
		if !s.ended && (!s.course.in || s.course.out) {
			n++
		}
	}
	return n
}

// adapter returns the LoRA adapter of the request, or "".
func (g *generation) adapter() string {
	o := &g.engine.options
	if o.Adapted != nil && o.Adapted(g.rq.Model) || slices.Contains(o.Adapters, g.rq.Model) {
		return g.rq.Model
	}
	return ""
}

// yieldNext yields the new tokens, then waits for a change. yieldNext reports whether more chunks follow. A stop
// precedes all tokens.
func (g *generation) yieldNext(yield func(*engine.Chunk, error) bool) bool {
	g.engine.mu.Lock()
	p := g.stream.progress
	g.engine.mu.Unlock()
	g.reused = p.reused
	if p.tokens == len(g.tokens) && g.ctx.Err() != nil {
		return false
	}
	for len(g.tokens) < p.tokens && !g.rc.IsStopped() {
		last := len(g.tokens)+1 == g.max || p.ended && p.err == nil && len(g.tokens)+1 == p.tokens // the scheduler ended the answer early
		if last {
			if !p.ended {
				break // the KV cache is being transferred to the decode worker
			}
			return g.yieldLast(yield)
		}
		token, ready := g.drawToken(), len(g.tokens)
		more := ready < p.tokens && (p.ended || ready+1 < g.max)
		c := engine.NewTokenChunk(token)
		if c.More = more; !yield(c, nil) {
			return false
		}
	}
	switch {
	case g.rc.IsStopped():
		yield(g.newTerminal(engine.FinishCancelled), nil)
		return false
	case p.ended:
		if p.err == nil {
			p.err = fault.New(fault.BackendUnknown, "mocker: the scheduler ended the request after %d tokens, must be %d", len(g.tokens), g.max)
		}
		yield(nil, p.err)
		return false
	}
	select {
	case <-g.rc.Stopped():
	case <-g.stream.notify: // rings when g.ctx ends, too
	}
	return true
}

// yieldLast yields the last token in the terminal.
func (g *generation) yieldLast(yield func(*engine.Chunk, error) bool) bool {
	token := g.drawToken()
	c := g.newTerminal(g.why)
	c.TokenIDs = []uint32{token}
	if g.engine.stage.Role == scheduler.Prefill {
		params, err := json.Marshal(map[string]any{"mocker_handle": g.id, "completed_tokens": g.tokens})
		if err != nil {
			panic(err) // a string and numbers cannot fail
		}
		c.DisaggregatedParams = params
	}
	yield(c, nil)
	return false
}

// drawToken draws the next token and appends it to tokens.
func (g *generation) drawToken() uint32 {
	t := g.draw.next()
	g.tokens = append(g.tokens, t)
	return t
}

// newTerminal returns the last chunk, with the usage.
func (g *generation) newTerminal(why engine.FinishReason) *engine.Chunk {
	u := engine.NewUsage(uint32(len(g.rq.TokenIDs)), uint32(len(g.tokens)))
	u.PromptTokensDetails = &engine.PromptTokensDetails{CachedTokens: uint32(g.reused)}
	return &engine.Chunk{FinishReason: why, CompletionUsage: u}
}
