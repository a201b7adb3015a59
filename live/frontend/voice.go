package frontend

import "github.com/replay-llm/replay/live/engine"

// voice makes the objects that the answer to one request consists of, as its
// endpoint has them.
type voice struct {
	id      string // with the prefix of the endpoint
	created int64
	model   string

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

func (v *voice) newObject(kind string, usage *engine.Usage, choices ...any) *object {
	if choices == nil {
		choices = []any{}
	}
	return &object{v.id, kind, v.created, v.model, choices, usage}
}

// wholeAnswer returns the whole answer.
func (v *voice) wholeAnswer(text, reason string, usage *engine.Usage) *object {
	return v.newObject(v.whole, usage, v.answered(text, reason))
}

// firstEvent returns the event before all text, nil for none.
func (v *voice) firstEvent() *object {
	if v.opening == nil {
		return nil
	}
	return v.newObject(v.piece, nil, v.opening)
}

// deltaEvent returns an event with text, and with a reason at the end.
func (v *voice) deltaEvent(text, reason string) *object {
	return v.newObject(v.piece, nil, v.added(text, reason))
}

// usageEvent returns the event with what was used.
func (v *voice) usageEvent(usage *engine.Usage) *object { return v.newObject(v.piece, usage) }

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

// completionVoice answers as /v1/completions.
func completionVoice(id string, created int64, model string) *voice {
	choice := func(text, reason string) any { return completionChoice{Text: text, FinishReason: orNull(reason)} }
	return &voice{
		id: "cmpl-" + id, created: created, model: model, whole: "text_completion", piece: "text_completion",
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

// chatVoice answers as /v1/chat/completions.
func chatVoice(id string, created int64, model string) *voice {
	return &voice{
		id: "chatcmpl-" + id, created: created, model: model, whole: "chat.completion", piece: "chat.completion.chunk",
		opening: chatChoice{Delta: &chatMessage{"assistant", new(string)}},
		answered: func(text, reason string) any {
			return chatChoice{Message: &chatMessage{"assistant", &text}, FinishReason: orNull(reason)}
		},
		added: func(text, reason string) any {
			return chatChoice{Delta: &chatMessage{Content: orNull(text)}, FinishReason: orNull(reason)}
		},
	}
}
