package frontend

import (
	"github.com/goccy/go-json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// firstByte is the token of the byte 0; those of the other bytes follow.
const firstByte = 256

// tokenizeText makes one token of each byte.
func tokenizeText(text string) []uint32 {
	tokens := make([]uint32, len(text))
	for i := range len(text) {
		tokens[i] = firstByte + uint32(text[i])
	}
	return tokens
}

// speaker makes text of tokens as they come. Of a character of several bytes
// nothing is said before it is whole. What is no byte is told as a number.
type speaker struct{ held []byte }

// addTokens returns the text that tokens add.
func (s *speaker) addTokens(tokens []uint32) string {
	var text strings.Builder
	for _, t := range tokens {
		if t >= firstByte && t < firstByte+256 {
			s.held = append(s.held, byte(t-firstByte))
			s.moveWhole(&text)
			continue
		}
		text.WriteString(s.flushRest())
		text.WriteByte(' ')
		text.WriteString(strconv.FormatUint(uint64(t), 10))
	}
	return text.String()
}

// moveWhole moves the characters that are whole, or never will be, into text.
func (s *speaker) moveWhole(text *strings.Builder) {
	for len(s.held) > 0 && utf8.FullRune(s.held) {
		r, n := utf8.DecodeRune(s.held)
		text.WriteRune(r)
		s.held = s.held[:copy(s.held, s.held[n:])]
	}
}

// flushRest returns what remains at the end: a character that was not whole.
func (s *speaker) flushRest() string {
	if len(s.held) == 0 {
		return ""
	}
	s.held = s.held[:0]
	return string(utf8.RuneError)
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
			return "", invalidError("messages[%d].role is %.40q, want system, developer, user, assistant or tool", i, m.Role)
		}
		content, err := m.contentText()
		if err != nil {
			return "", invalidError("messages[%d].content: %v", i, err)
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
		return "", invalidError("is %.40s, want a string or a list of parts", m.Content)
	}
	var all strings.Builder
	for i, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return "", invalidError("part %d is of type %.40q, want text", i, p.Type)
		}
		all.WriteString(*p.Text)
	}
	return all.String(), nil
}
