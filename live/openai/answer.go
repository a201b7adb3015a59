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

// Answer is the answer to one request. Answer collects the choices while they are generated.
type Answer struct {
	// Fingerprint is the system_fingerprint of responses; "": responses have none.
	Fingerprint string

	request *Request
	id      string // request id
	model   string // name of the model in responses
	began   time.Time
	created int64 // creation time in responses, in Unix seconds
	choices []choice
	groups  []engine.Group // one group of each prompt if N is more than 1
	head    []byte         // first bytes of every event
}

// NewAnswer returns the answer to r, a request that Fit accepted. id is the request id. model is the name of the
// model in responses. began is the arrival of the request, and created is the creation time in responses.
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

// partingLimit is how long an engine may take to report the usage after a stop string or a stop token.
const partingLimit = time.Second

// errIncomplete reports that an engine stream ended before the last chunk.
var errIncomplete = fault.New(fault.BackendStreamIncomplete, "the answer ended without a last chunk")

// Generate generates all choices at target and yields their pieces in order of arrival. A piece is valid until the
// next one is yielded. After an error nothing more is yielded. Without an error, every choice has ended. If rc is
// stopped, the choices end early.
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

// ask is an answer and the target that generates it.
type ask struct {
	*Answer
	target  engine.Target
	headers map[string]string
}

// generateAll generates several choices concurrently.
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

// generateChoice generates one choice and passes its pieces to take, until take returns false. room returns the
// memory for a piece.
func (a *ask) generateChoice(ctx context.Context, rc cancel.Context, index int, room func() *Piece, take func(*Piece) bool) error {
	rq := a.request.EngineRequest(index)
	rq.Local = &engine.Local{}
	if a.request.N > 1 {
		rq.Local.Group = &a.groups[index/a.request.N]
	}
	var enough atomic.Bool
	if len(a.request.Stop.Stop)+len(a.request.Stop.StopTokenIDs) > 0 {
		// A stop string or a stop token stops the engine, but not the request of the client.
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
		if ch.ended { // a stop string or a stop token ended the choice, and only the usage is still read
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

// noteCached stores the number of cached prompt tokens, if the last chunk c reports it. c may be nil.
func (a *Answer) noteCached(ch *choice, c *engine.Chunk) {
	if c != nil && c.CompletionUsage != nil {
		ch.cached = c.CompletionUsage.PromptTokensDetails
	}
}

// Usage returns the usage so far. Usage counts each prompt once, and the tokens of all choices.
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
