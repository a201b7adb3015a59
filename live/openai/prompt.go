package openai

import (
	"math"
	"strings"

	"github.com/goccy/go-json"
)

func newTextPrompt(text string) Prompt {
	return Prompt{Text: text, Tokens: Tokenize(text), IsText: true}
}

// parsePrompt reads a prompt: a text, a list of token ids, or a list of one of
// either.
func parsePrompt(raw json.RawMessage) (Prompt, error) {
	const want = "want a string, a list of token ids, or a list with one of either"
	if len(raw) == 0 || string(raw) == "null" {
		return Prompt{}, Refuse("prompt", "prompt is missing, %s", want)
	}
	p, ok := parseOnePrompt(raw)
	if !ok {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return Prompt{}, Refuse("prompt", "prompt is %.40s, %s", raw, want)
		}
		if len(list) != 1 {
			return Prompt{}, Refuse("prompt", "prompt is a list of %d, %s; token ids are whole numbers from 0 to %d", len(list), want, uint32(math.MaxUint32))
		}
		if p, ok = parseOnePrompt(list[0]); !ok {
			return Prompt{}, Refuse("prompt", "prompt is [%.40s], %s", list[0], want)
		}
	}
	if len(p.Tokens) == 0 {
		return Prompt{}, Refuse("prompt", "prompt is empty, want at least one token")
	}
	return p, nil
}

// parseOnePrompt reads a text or a list of token ids, and reports whether it was one
// of these.
func parseOnePrompt(raw json.RawMessage) (Prompt, bool) {
	if raw[0] == '"' {
		var text string
		err := json.Unmarshal(raw, &text)
		return newTextPrompt(text), err == nil
	}
	var tokens []uint32
	err := json.Unmarshal(raw, &tokens)
	return Prompt{Tokens: tokens}, err == nil && tokens != nil
}

// echoText returns the prompt as text.
func (p *Prompt) echoText() string {
	if p.IsText {
		return p.Text
	}
	var s speaker
	return s.addTokens(p.Tokens) + s.flushRest()
}

// message is one of a conversation.
type message struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// joinMessages returns the prompt of a conversation: each message after a line with
// the role of its speaker, and the assistant's turn at the end.
func joinMessages(messages []message) (string, error) {
	var text strings.Builder
	for i, m := range messages {
		switch m.Role {
		case "system", "developer", "user", "assistant", "tool", "function":
		default:
			return "", Refuse("messages", "messages[%d].role is %.40q, want system, developer, user, assistant or tool", i, m.Role)
		}
		content, err := m.contentText()
		if err != nil {
			return "", Refuse("messages", "messages[%d].content: %v", i, err)
		}
		text.WriteString("<|" + m.Role + "|>\n" + content + "\n")
	}
	text.WriteString("<|assistant|>\n")
	return text.String(), nil
}

// contentText returns the content: a string, or a list of parts that are text.
func (m *message) contentText() (string, error) {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return "", nil // a call of a tool says nothing
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return "", Refuse("messages", "is %.40s, want a string or a list of parts", m.Content)
	}
	var all strings.Builder
	for i, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return "", Refuse("messages", "part %d is of type %.40q, want text", i, p.Type)
		}
		all.WriteString(*p.Text)
	}
	return all.String(), nil
}
