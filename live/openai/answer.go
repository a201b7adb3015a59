package openai

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
)

// Answer is the answer to one request in the making.
type Answer struct {
	// Fingerprint is the system_fingerprint of answers, unless it is "".
	Fingerprint string

	request *Request
	id      string // of the request
	model   string // as in responses
	began   time.Time
	created int64 // the same, as in responses
	choices []choice
	groups  []engine.Group // of the prompts, where each has several answers
	head    []byte         // what every event begins with
}

// NewAnswer returns the answer to r, which is fitted and came in at began. id is the request's, model the name
// of the model in responses; created is their creation time.
func NewAnswer(r *Request, id, model string, began, created time.Time) *Answer {
	a := &Answer{request: r, id: id, model: model, began: began, created: created.Unix()}
	a.choices = make([]choice, r.Choices())
	if r.N > 1 {
		a.groups = make([]engine.Group, len(r.Prompts))
		for i := range a.groups {
			a.groups[i].Size = r.N
		}
	}
	return a
}

// partingLimit is how long an engine may take to report the usage of an answer that has ended without it.
const partingLimit = time.Second

// errIncomplete is the error of an answer that just ends.
var errIncomplete = fault.New(fault.BackendStreamIncomplete, "the answer ended without a last chunk")

// Generate asks target for all choices and yields their pieces as they come, each valid
// until the next. An error is the last that it yields; without one every choice has
// ended. When rc is stopped, the choices end early.
func (a *Answer) Generate(ctx context.Context, rc cancel.Context, target engine.Target, headers map[string]string) iter.Seq2[*Piece, error] {
	if len(a.choices) == 1 {
		return func(yield func(*Piece, error) bool) {
			var p Piece
			asked := &ask{a, target, headers}
			if err := asked.generateChoice(ctx, rc, 0, func() *Piece { return &p }, func(p *Piece) bool { return yield(p, nil) }); err != nil {
				yield(nil, err)
			}
		}
	}
	return func(yield func(*Piece, error) bool) { (&ask{a, target, headers}).generateAll(ctx, rc, yield) }
}

// ask is an answer with the target that generates it.
type ask struct {
	*Answer
	target  engine.Target
	headers map[string]string
}

// generateAll generates several choices at once.
func (a *ask) generateAll(ctx context.Context, rc cancel.Context, yield func(*Piece, error) bool) {
	type item struct {
		piece *Piece
		err   error
	}
	ctx, release := context.WithCancel(ctx)
	items := make(chan item)
	var wg sync.WaitGroup
	for i := range a.choices {
		wg.Go(func() {
			send := func(p *item) bool {
				select {
				case items <- *p:
					return true
				case <-ctx.Done():
					return false
				}
			}
			id := ""
			if i == 0 {
				id = rc.ID()
			}
			child := cancel.New(id)
			rc.LinkChild(child)
			defer rc.Unlink(child)
			stay := context.AfterFunc(ctx, child.Kill)
			defer stay()
			err := a.generateChoice(ctx, child, i, func() *Piece { return &Piece{} }, func(p *Piece) bool { return send(&item{piece: p}) })
			if err != nil {
				send(&item{err: err})
			}
		})
	}
	go func() {
		wg.Wait()
		close(items)
	}()
	defer func() {
		release()
		wg.Wait()
	}()
	for one := range items {
		if !yield(one.piece, one.err) || one.err != nil {
			return
		}
	}
}

// generateChoice asks for one choice and hands its pieces to take, until that reports false.
// Each is made with room.
func (a *ask) generateChoice(ctx context.Context, rc cancel.Context, index int, room func() *Piece, take func(*Piece) bool) error {
	rq := a.request.EngineRequest(index)
	rq.Local = &engine.Local{}
	if a.request.N > 1 {
		rq.Local.Group = &a.groups[index/a.request.N]
	}
	var enough atomic.Bool
	if len(a.request.Stop.Stop)+len(a.request.Stop.StopTokenIDs) > 0 {
		// The answer may end before its engine knows. That is no wish of the client's.
		child := cancel.New(rc.ID())
		rc.LinkChild(child)
		defer rc.Unlink(child)
		rc, rq.Local.Enough = child, enough.Load
	}
	at := float64(a.began.UnixNano()) / 1e6
	rq.RequestTimestampMS = &at
	chunks, err := a.target.Generate(ctx, rc, rq, a.headers)
	if err != nil {
		return err
	}
	ch := &a.choices[index]
	for c, err := range chunks {
		if ch.ended { // it ended alone, and only its usage is of interest
			if err != nil || c.FinishReason != "" {
				a.noteCached(ch, c)
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		p := room()
		if err := a.addChunk(index, c, p); err != nil {
			return err
		}
		if !take(p) || c.FinishReason != "" {
			return nil
		}
		if ch.ended {
			enough.Store(true)
			rc.Stop()
			late := time.AfterFunc(partingLimit, rc.Kill)
			defer late.Stop()
		}
	}
	if ch.ended {
		return nil
	}
	return errIncomplete
}

// noteCached notes how much of a prompt was cached, as the last chunk has it; nil has
// nothing.
func (a *Answer) noteCached(ch *choice, c *engine.Chunk) {
	if c != nil && c.CompletionUsage != nil {
		ch.cached = c.CompletionUsage.PromptTokensDetails
	}
}

// Usage returns what the answer took so far: each prompt once, and all choices.
func (a *Answer) Usage() *engine.Usage {
	tokens := 0
	var cached *engine.PromptTokensDetails
	for i := range a.choices {
		ch := &a.choices[i]
		tokens += ch.tokens
		if i%a.request.N == 0 && ch.cached != nil {
			if cached == nil {
				cached = &engine.PromptTokensDetails{}
			}
			cached.CachedTokens += ch.cached.CachedTokens
		}
	}
	u := engine.NewUsage(uint32(a.request.PromptTokens()), uint32(tokens))
	u.PromptTokensDetails = cached
	return u
}
