package openai

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
)

// Answer is the answer to one request in the making.
type Answer struct {
	request *Request
	id      string // of the request
	model   string // as clients are told
	began   time.Time
	created int64 // the same, as clients are told
	choices []choice
}

// choice is one of the answers to a request.
type choice struct {
	speaker speaker
	text    strings.Builder // all of it, unless it is streamed
	tokens  int             // that have come
	usage   *engine.Usage   // once it has ended
	reason  string          // why it has
}

// Piece is what a choice gains at once.
type Piece struct {
	Choice int
	Text   string
	Tokens int    // the number of new ones
	Reason string // why the choice ended; "" until the last piece of it
}

// NewAnswer returns the answer to r, which came in at began. id is the request's, model
// the name of the model as clients are to be told; created is when, as they are told.
func NewAnswer(r *Request, id, model string, began, created time.Time) *Answer {
	a := &Answer{request: r, id: id, model: model, began: began, created: created.Unix()}
	a.choices = make([]choice, r.Choices())
	return a
}

// errIncomplete is the error of an answer that just ends.
var errIncomplete = fault.New(fault.BackendStreamIncomplete, "the answer ended without a last chunk")

// Generate asks target for all choices and yields their pieces as they come, each valid
// until the next. An error is the last that it yields; without one every choice has
// ended. When rc is stopped, the choices end early.
func (a *Answer) Generate(ctx context.Context, rc cancel.Context, target engine.Target, headers map[string]string) iter.Seq2[*Piece, error] {
	return func(yield func(*Piece, error) bool) {
		rq := a.request.EngineRequest(0)
		at := float64(a.began.UnixNano()) / 1e6
		rq.RequestTimestampMS = &at
		chunks, err := target.Generate(ctx, rc, rq, headers)
		if err != nil {
			yield(nil, err)
			return
		}
		var p Piece
		for c, err := range chunks {
			if err == nil {
				err = a.addChunk(0, c, &p)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&p, nil) || p.Reason != "" {
				return
			}
		}
		yield(nil, errIncomplete)
	}
}

// addChunk notes a chunk of a choice, and fills in the piece that it is.
func (a *Answer) addChunk(index int, c *engine.Chunk, p *Piece) error {
	if err := c.Err(); err != nil {
		return err
	}
	ch := &a.choices[index]
	*p = Piece{Choice: index, Tokens: len(c.TokenIDs)}
	ch.tokens += p.Tokens
	if c.Text != nil {
		p.Text = *c.Text
	} else {
		p.Text = ch.speaker.addTokens(c.TokenIDs)
	}
	if c.CompletionUsage != nil {
		ch.usage = c.CompletionUsage
	}
	if c.FinishReason != "" {
		p.Text += ch.speaker.flushRest()
		p.Reason = finishWord(c.FinishReason)
		ch.reason = p.Reason
		if ch.usage == nil {
			prompt := a.request.Prompts[index/a.request.N].Tokens
			ch.usage = engine.NewUsage(uint32(len(prompt)), uint32(ch.tokens))
		}
	}
	if !a.request.Stream {
		ch.text.WriteString(p.Text)
	}
	return nil
}

// Usage returns what the answer took so far.
func (a *Answer) Usage() *engine.Usage {
	return a.choices[0].usage
}

// finishWord returns why an answer ended, in the words of clients.
func finishWord(f engine.FinishReason) string {
	if f == engine.FinishEOS {
		return string(engine.FinishStop)
	}
	return string(f)
}
