package openai

import (
	"github.com/goccy/go-json"

	"github.com/replay-llm/replay/live/engine"
)

// object is an answer or a piece of one.
type object struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []any         `json:"choices"`
	Usage   *engine.Usage `json:"usage,omitempty"`
}

type completionChoice struct {
	Index        int       `json:"index"`
	Text         string    `json:"text"`
	LogProbs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
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

// appendObject appends an answer, or a piece of it, with these choices.
func (a *Answer) appendObject(dst []byte, usage *engine.Usage, choices ...any) []byte {
	if choices == nil {
		choices = []any{}
	}
	o := &object{"cmpl-" + a.id, "text_completion", a.created, a.model, choices, usage}
	if a.request.Kind == Chat {
		o.ID, o.Object = "chatcmpl-"+a.id, "chat.completion"
		if a.request.Stream {
			o.Object = "chat.completion.chunk"
		}
	}
	b, err := json.Marshal(o)
	if err != nil {
		panic(err) // texts and numbers cannot fail
	}
	return append(dst, b...)
}

// AppendWhole appends the whole answer, once every choice has ended.
func (a *Answer) AppendWhole(dst []byte) []byte {
	choices := make([]any, len(a.choices))
	for i := range a.choices {
		c := &a.choices[i]
		text := c.text.String()
		if a.request.Echo {
			text = a.request.Prompts[i/a.request.N].echoText() + text
		}
		if a.request.Kind == Chat {
			choices[i] = chatChoice{Index: i, Message: &chatMessage{"assistant", &text}, FinishReason: orNull(c.reason)}
		} else {
			choices[i] = completionChoice{Index: i, Text: text, FinishReason: orNull(c.reason)}
		}
	}
	return a.appendObject(dst, a.Usage(), choices...)
}

// Openings returns what a stream says before the first token, one event each.
func (a *Answer) Openings() (events [][]byte) {
	for i := range a.choices {
		switch {
		case a.request.Kind == Chat:
			events = append(events, a.appendObject(nil, nil, chatChoice{Index: i, Delta: &chatMessage{"assistant", new(string)}}))
		case a.request.Echo:
			events = append(events, a.AppendPiece(nil, &Piece{Choice: i, Text: a.request.Prompts[i/a.request.N].echoText()}))
		}
	}
	return events
}

// AppendPiece appends a piece as the data of an event; nothing, if it says nothing.
func (a *Answer) AppendPiece(dst []byte, p *Piece) []byte {
	switch {
	case p.Text == "" && p.Reason == "":
		return dst
	case a.request.Kind == Chat:
		return a.appendObject(dst, nil, chatChoice{Index: p.Choice, Delta: &chatMessage{Content: orNull(p.Text)}, FinishReason: orNull(p.Reason)})
	}
	return a.appendObject(dst, nil, completionChoice{Index: p.Choice, Text: p.Text, FinishReason: orNull(p.Reason)})
}

// Closings returns what a stream says when every choice has ended, one event each.
func (a *Answer) Closings() (events [][]byte) {
	if a.request.Usage {
		events = append(events, a.appendObject(nil, a.Usage()))
	}
	return append(events, []byte("[DONE]"))
}
