package texts

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// Conversations is the format of conversation data sets, for example ShareGPT, LMSYS-Chat-1M and WildChat.
const Conversations = "conversations"

// IsConversation reports whether an object has a list of messages.
func IsConversation(o *scan.Object) bool { return messagesKey(o.Find) != "" }

// messagesKey returns the key of the list of messages. messagesKey returns "" if there is no list of messages.
func messagesKey(find func(key string) []byte) string {
	for _, key := range []string{"conversations", "conversation", "messages"} {
		if v := find(key); len(v) > 0 && v[0] == '[' {
			return key
		}
	}
	return ""
}

// conversationRows makes a request for each answer in conversations. The prompt of the request contains all earlier
// messages.
type conversationRows struct {
	formats.LineRows
	t    *Counter
	text []byte // all messages so far
}

// OpenConversations opens a file with a conversation per line, or with a list of conversations.
func OpenConversations(s *formats.Stream) (formats.Reader, error) {
	s.Chained = s.Options.Sessions != "flat"
	s.PaceArrivals()
	t, err := New(s)
	if err != nil {
		return nil, err
	}
	c := &conversationRows{t: t}
	c.S, c.Read = s, c.readConversation
	head, _ := s.Lines.Peek()
	line, rest, _ := strings.Cut(strings.TrimSpace(string(head)), "\n")
	if strings.HasPrefix(line, "{") && (rest == "" || scan.CheckValue([]byte(line)) == nil) {
		return c, nil
	}
	all := &c.Gathered
	return all, all.EachObject(func(f *scan.Fields) error {
		from := len(all.All)
		err := c.readConversation(f)
		if err != nil || f.Err != nil {
			all.All = all.All[:from]
		}
		for i := from; i < len(all.All); i++ {
			all.All[i] = all.All[i].Clone()
		}
		return err
	})
}

// readConversation adds the requests of a conversation.
func (c *conversationRows) readConversation(f *scan.Fields) error {
	session := f.ReadName("conversation_id")
	for _, key := range []string{"conversation_hash", "id"} {
		if session == nil {
			session = f.ReadName(key)
		}
	}
	if session == nil {
		session = fmt.Appendf(nil, "line_%d", f.Line)
	}
	key := messagesKey(func(key string) []byte { return f.Value(key) })
	if key == "" {
		f.Complain("no list of messages, expected conversations, conversation or messages")
		return nil
	}
	c.text = c.text[:0]
	turns := 0
	for i, m := range f.Elements(key) {
		speaker := m.Value("from", "role")
		content := m.Value("value", "content", "text")
		if isAnswer(scan.UnquoteString(speaker), i) && len(c.text) > 0 {
			if err := c.addTurn(f.Line, session, turns, c.countTokens(content)); err != nil {
				return err
			}
			turns++
		}
		c.text = append(append(c.text, c.t.CollectPrompt(speaker)...), '\n')
		c.text = append(append(c.text, c.t.CollectPrompt(content)...), '\n')
	}
	switch {
	case turns > 0:
		return nil
	case len(c.text) > 0 && c.S.Options.OutputTokens > 0:
		return c.addTurn(f.Line, session, 0, 0)
	}
	f.Complain("%s has no answer after a message, expected one or --output-len", key)
	return nil
}

// isAnswer reports whether message i of a conversation is from the model.
func isAnswer(speaker []byte, i int) bool {
	if len(speaker) == 0 {
		return i%2 == 1
	}
	return slices.Contains([]string{"assistant", "gpt", "chatgpt", "model", "bing", "bard"}, string(speaker))
}

// addTurn adds a request. All messages so far are its prompt.
func (c *conversationRows) addTurn(line int, session []byte, turn, output int) error {
	r := c.Add(line)
	if turn == 0 {
		c.S.ArrivePaced(r)
	}
	r.Session, r.Group = session, session
	r.Output = output
	if n := c.S.Options.OutputTokens; n > 0 {
		r.Output = n
	}
	return c.t.FillPrompt(r, c.text)
}

// countTokens returns the tokens of an answer. Without a tokenizer the number is an estimate.
func (c *conversationRows) countTokens(content []byte) int {
	text := c.t.CollectPrompt(content)
	if c.t.tokens == nil {
		return int(min(math.Ceil(float64(len(text))*c.S.Options.TokensPerByte), scan.MaxTokens))
	}
	return len(c.t.tokens.AppendBare(nil, string(text)))
}
