package frontend

import "github.com/replay-llm/replay/live/engine"

// voice makes the objects that answers consist of.
type voice interface {
	// begin says whose answer it is.
	begin(id string, created int64, model string)
	// answer is the whole answer.
	answer(text, reason string, usage *engine.Usage) any
	// first is the event before all text, nil for none.
	first() any
	// delta is an event with text, and with a reason at the end.
	delta(text, reason string) any
	// total is the event that tells what was used.
	total(usage *engine.Usage) any
}

// spoken is an answer or a piece of one.
type spoken[choice any] struct {
	ID      string        `json:"id"`
	Object  string        `json:"object"`
	Created int64         `json:"created"`
	Model   string        `json:"model"`
	Choices []choice      `json:"choices"`
	Usage   *engine.Usage `json:"usage,omitempty"`
}

// head is what all objects of an answer begin with.
type head struct {
	id      string
	created int64
	model   string
}

func (h *head) begin(id string, created int64, model string) {
	h.id, h.created, h.model = id, created, model
}

func speak[choice any](h *head, prefix, object string, choices ...choice) *spoken[choice] {
	if choices == nil {
		choices = []choice{}
	}
	return &spoken[choice]{ID: prefix + h.id, Object: object, Created: h.created, Model: h.model, Choices: choices}
}

// orNull is nil for no reason.
func orNull(reason string) *string {
	if reason == "" {
		return nil
	}
	return &reason
}

// completion speaks as /v1/completions.
type completion struct{ head }

func completionVoice() voice { return &completion{} }

type completionChoice struct {
	Index        int       `json:"index"`
	Text         string    `json:"text"`
	LogProbs     *struct{} `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
}

func (c *completion) speak(choices ...completionChoice) *spoken[completionChoice] {
	return speak(&c.head, "cmpl-", "text_completion", choices...)
}

func (c *completion) answer(text, reason string, usage *engine.Usage) any {
	a := c.speak(completionChoice{Text: text, FinishReason: orNull(reason)})
	a.Usage = usage
	return a
}

func (c *completion) first() any { return nil }

func (c *completion) delta(text, reason string) any {
	return c.speak(completionChoice{Text: text, FinishReason: orNull(reason)})
}

func (c *completion) total(usage *engine.Usage) any {
	t := c.speak()
	t.Usage = usage
	return t
}

// conversing speaks as /v1/chat/completions.
type conversing struct{ head }

func chatVoice() voice { return &conversing{} }

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

func (c *conversing) chunk(choices ...chatChoice) *spoken[chatChoice] {
	return speak(&c.head, "chatcmpl-", "chat.completion.chunk", choices...)
}

func (c *conversing) answer(text, reason string, usage *engine.Usage) any {
	a := speak(&c.head, "chatcmpl-", "chat.completion", chatChoice{
		Message: &chatMessage{"assistant", &text}, FinishReason: orNull(reason),
	})
	a.Usage = usage
	return a
}

func (c *conversing) first() any {
	empty := ""
	return c.chunk(chatChoice{Delta: &chatMessage{"assistant", &empty}})
}

func (c *conversing) delta(text, reason string) any {
	m := &chatMessage{}
	if text != "" {
		m.Content = &text
	}
	return c.chunk(chatChoice{Delta: m, FinishReason: orNull(reason)})
}

func (c *conversing) total(usage *engine.Usage) any {
	t := c.chunk()
	t.Usage = usage
	return t
}
