package frontend

import "github.com/replay-llm/replay/live/engine"

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
