package frontend

import (
	"iter"
	"net/http"
	"time"

	"github.com/goccy/go-json"

	"github.com/replay-llm/replay/live/engine"
)

// flavour is one of the ways to ask for tokens, and to be answered.
type flavour struct {
	name  string // as metrics have it
	parse func(body []byte) (*question, error)

	prefix       string // of ids
	whole, piece string // kinds of objects
	// answered and added are the choices of a whole answer and of a piece of one.
	// The reason is "" until the end.
	answered, added func(text, reason string) any
	opening         any // the choice before all text; nil: none
}

// object is an answer or a piece of one.
type object struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []any         `json:"choices"`
	Usage   *engine.Usage `json:"usage,omitempty"`
}

// newObject returns an answer, or a piece of it, with these choices.
func (a *reply) newObject(kind string, usage *engine.Usage, choices ...any) *object {
	if choices == nil {
		choices = []any{}
	}
	return &object{a.flavour.prefix + a.rc.ID(), kind, a.created, a.model.Name, choices, usage}
}

// orNull returns nil for no reason.
func orNull(reason string) *string {
	if reason == "" {
		return nil
	}
	return &reason
}

type completionChoice struct {
	Index        int       `json:"index"`
	Text         string    `json:"text"`
	LogProbs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

// completionFlavour is /v1/completions.
func completionFlavour() *flavour {
	choice := func(text, reason string) any { return completionChoice{Text: text, FinishReason: orNull(reason)} }
	return &flavour{
		name: "completions", parse: parseCompletion, prefix: "cmpl-", whole: "text_completion", piece: "text_completion",
		answered: choice, added: choice,
	}
}

type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatChoice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message,omitempty"`
	Delta        *chatMessage `json:"delta,omitempty"`
	LogProbs     *struct{}    `json:"logprobs"`
	FinishReason *string      `json:"finish_reason"`
}

// chatFlavour is /v1/chat/completions.
func chatFlavour() *flavour {
	return &flavour{
		name: "chat_completions", parse: parseChat, prefix: "chatcmpl-", whole: "chat.completion", piece: "chat.completion.chunk",
		opening: chatChoice{Delta: &chatMessage{"assistant", new(string)}},
		answered: func(text, reason string) any {
			return chatChoice{Message: &chatMessage{"assistant", &text}, FinishReason: orNull(reason)}
		},
		added: func(text, reason string) any {
			return chatChoice{Delta: &chatMessage{Content: orNull(text)}, FinishReason: orNull(reason)}
		},
	}
}

// writeStream writes the answer as events while it comes. Before the first chunk, an
// error still has a status of its own.
func (a *reply) writeStream(chunks iter.Seq2[*engine.Chunk, error]) {
	begun := false
	for c, err := range chunks {
		text, err := a.noteChunk(c, err)
		if err != nil {
			a.sendError(err, begun)
			return
		}
		if a.isGone() {
			continue // the request is about to end
		}
		if !begun {
			begun = true
			a.openStream()
		}
		end := finishWord(c.FinishReason)
		if text != "" || end != "" {
			a.sendEvent(a.newObject(a.flavour.piece, nil, a.flavour.added(text, end)))
		}
		if end != "" {
			if a.question.usage {
				a.sendEvent(a.newObject(a.flavour.piece, a.usage))
			}
			a.sendData([]byte("[DONE]"))
			a.whole = a.failed == nil
			return
		}
	}
	a.sendError(errIncomplete, begun)
}

// openStream writes the header, and what comes before the first token.
func (a *reply) openStream() {
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	a.w.WriteHeader(http.StatusOK)
	if first := a.flavour.opening; first != nil {
		a.sendEvent(a.newObject(a.flavour.piece, nil, first))
	}
	if q := a.question; q.echo {
		a.sendEvent(a.newObject(a.flavour.piece, nil, a.flavour.added(q.echoText(), "")))
	}
}

// sendEvent writes one event. A client that does not take it has left.
func (a *reply) sendEvent(event any) {
	b, err := json.Marshal(event)
	if err != nil {
		a.loseClient(err)
		return
	}
	a.sendData(b)
}

func (a *reply) sendData(data []byte) {
	if a.failed != nil {
		return
	}
	a.buf = append(append(append(a.buf[:0], "data: "...), data...), "\n\n"...)
	control := http.NewResponseController(a.w)
	_ = control.SetWriteDeadline(time.Now().Add(a.server.config.Write))
	_, err := a.w.Write(a.buf)
	if err == nil {
		err = control.Flush()
	}
	if err != nil {
		a.loseClient(err)
	}
}

func (a *reply) loseClient(err error) {
	a.failed = err
	a.rc.Stop()
}

// sendError ends the answer with an error. It has a status while nothing is written,
// and is an event later, after which nothing comes.
func (a *reply) sendError(err error, begun bool) {
	switch {
	case a.isGone():
	case !begun:
		a.refuseRequest(err)
	default:
		a.status = statusOf(err)
		a.sendEvent(bodyOf(err))
		a.whole = a.failed == nil
	}
}
