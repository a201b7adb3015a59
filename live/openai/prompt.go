package openai

import (
	"fmt"
	"math"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

func (r *Request) newTextPrompt(text string) Prompt {
	return Prompt{Text: text, Tokens: r.tokenize(text), IsText: true}
}

// maxPrompts is the maximum number of prompts of one request.
const maxPrompts = 1024

// readPrompt reads the prompts of a completion: a string, a list of token ids, or a list of strings or such lists.
func (r *Request) readPrompt(f *fields) error {
	raw, ok := f.takeKey("prompt")
	if !ok || string(raw) == `""` {
		return Refuse("prompt", "prompt is missing or empty, must be a string, a list of token ids, or a list of either")
	}
	if raw[0] == '"' {
		return r.addPrompt(f, "body.prompt", raw)
	}
	var list []json.RawMessage
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return f.refuse("body.prompt", raw, "a string or a list")
	}
	switch {
	case len(list) == 0:
		return Refuse("", "prompt is an empty list, must have at least one prompt")
	case list[0][0] != '"' && list[0][0] != '[':
		return r.addPrompt(f, "body.prompt", raw)
	case len(list) > maxPrompts:
		return Refuse("prompt", "prompt is a list of %d, must be at most %d", len(list), maxPrompts)
	}
	for i, one := range list {
		place := fmt.Sprintf("body.prompt.%d", i)
		if one[0] != list[0][0] {
			return f.refuse(place, one, "of the type of the first prompt")
		}
		if err := r.addPrompt(f, place, one); err != nil {
			return err
		}
	}
	return nil
}

// addPrompt reads one prompt and adds it to the request.
func (r *Request) addPrompt(f *fields, place string, raw json.RawMessage) error {
	var p Prompt
	if raw[0] == '"' {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return f.refuse(place, raw, "a string")
		}
		p = r.newTextPrompt(text)
		if r.Echo && r.LogProbs >= 0 && Detokenize(p.Tokens) != text {
			return Refuse("echo", "echo with logprobs is not supported for texts here: the tokenizer does not return the text of a token. Send token ids")
		}
	} else if json.Unmarshal(raw, &p.Tokens) != nil || strings.Contains(string(raw), "null") {
		return f.complainTokens(place, raw)
	}
	if len(p.Tokens) == 0 {
		return Refuse("", "the prompt is empty, must have at least one token")
	}
	r.Prompts = append(r.Prompts, p)
	return nil
}

// complainTokens returns the error of a list of token ids.
func (f *fields) complainTokens(place string, raw json.RawMessage) error {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return f.refuse(place, raw, "a list of token ids")
	}
	for i, one := range list {
		at := fmt.Sprintf("%s.%d", place, i)
		switch v := f.parseInteger(at, one); {
		case v == nil:
		case *v < 0:
			f.complain(at, one, "at least 0")
		case *v > math.MaxUint32:
			return Refuse("", "%s is %d, must be a token id of the vocabulary", at, *v)
		default:
			continue
		}
		return f.err()
	}
	return f.refuse(place, raw, "a list of token ids")
}

// message is one message of a chat.
type message struct {
	Role    *string         `json:"role"`
	Content json.RawMessage `json:"content"`
}

// readMessages reads the messages of a chat.
func (r *Request) readMessages(f *fields) error {
	if _, ok := f.takeKey("chat_template"); ok {
		return Refuse("chat_template", "chat_template is not supported: messages have one form")
	}
	open, continued := f.flag("add_generation_prompt", true), f.flag("continue_final_message", false)
	if open && continued {
		return Refuse("continue_final_message", "continue_final_message and add_generation_prompt are mutually exclusive")
	}
	if raw, there := f.keys["messages"]; !there {
		f.complainMissing("body.messages", "a list of messages")
	} else if string(raw) == "null" {
		return Refuse("messages", "messages is null, must be a list of messages")
	}
	list := f.list("messages")
	if err := f.err(); err != nil {
		return err
	}
	if len(list) == 0 {
		return Refuse("", "messages is empty, must have at least one message")
	}
	var text strings.Builder
	var role string
	for i, raw := range list {
		m, content, err := r.readMessage(f, i, raw)
		if err != nil {
			return err
		}
		role = *m.Role
		text.WriteString("<|" + role + "|>\n" + content)
		if i < len(list)-1 || !continued {
			text.WriteByte('\n')
		}
		if i == len(list)-1 && r.Echo && role == "assistant" {
			return Refuse("echo", "echo is true, which is not supported where the last message is the assistant's")
		}
	}
	r.Echo, r.role = false, "assistant"
	if !open {
		r.role = role
	} else {
		text.WriteString("<|assistant|>\n")
	}
	r.Prompts = []Prompt{r.newTextPrompt(text.String())}
	return nil
}

// readMessage reads a message and the text of its content.
func (r *Request) readMessage(f *fields, i int, raw json.RawMessage) (m message, content string, err error) {
	place := fmt.Sprintf("body.messages.%d", i)
	if err := json.Unmarshal(raw, &m); err != nil || raw[0] != '{' {
		return m, "", f.refuse(place, raw, "an object with a role")
	}
	if m.Role == nil {
		f.complainMissing(place+".role", "the role of the message")
		return m, "", f.err()
	}
	content, bad := m.contentText()
	switch {
	case bad == notText:
		return m, "", Refuse("messages", "messages.%d has a part that is not text, which is not supported: the model is text only", i)
	case bad != "":
		return m, "", f.refuse(place+".content", m.Content, bad)
	}
	return m, content, nil
}

// notText is the error of a content that is not text, such as an image.
const notText = "not text"

// contentText returns the text of the content, which is a string or a list of text parts. bad is the error of the
// content, or "".
func (m *message) contentText() (content, bad string) {
	if len(m.Content) == 0 || string(m.Content) == "null" {
		return "", "" // a tool call has no text
	}
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text, ""
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return "", "a string or a list of parts"
	}
	var all strings.Builder
	for _, p := range parts {
		switch {
		case strings.HasPrefix(p.Type, "image"), strings.HasPrefix(p.Type, "audio"), strings.Contains(p.Type, "_audio"), strings.HasPrefix(p.Type, "video"), p.Type == "file":
			return "", notText
		case p.Type != "text" || p.Text == nil:
			return "", fmt.Sprintf("parts of type text with a text, got %.40q", p.Type)
		}
		all.WriteString(*p.Text)
	}
	return all.String(), ""
}
