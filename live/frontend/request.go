package frontend

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-json"

	"github.com/replay-llm/replay/live/engine"
)

// question is a request as it was understood.
type question struct {
	model  string
	text   string   // the prompt, unless there are tokens
	tokens []uint32 // the prompt, as tokens
	stream bool
	usage  bool // the stream is to end with what was used
	echo   bool // the answer is to begin with the prompt
	stop   engine.StopConditions
	sample json.RawMessage // sampling options
}

// promptTokens returns the number of tokens of the prompt.
func (q *question) promptTokens() int {
	if q.tokens != nil {
		return len(q.tokens)
	}
	return len(q.text)
}

// engineRequest returns the question as engines take it.
func (q *question) engineRequest() *engine.Request {
	tokens := q.tokens
	if tokens == nil {
		tokens = tokenizeText(q.text)
	}
	return &engine.Request{Model: q.model, TokenIDs: tokens, StopConditions: q.stop, SamplingOptions: q.sample}
}

// asked holds the keys that both flavours have. Others are ignored.
type asked struct {
	Model         *string         `json:"model"`
	Stream        *bool           `json:"stream"`
	StreamOptions *streamOptions  `json:"stream_options"`
	MaxTokens     *json.Number    `json:"max_tokens"`
	MinTokens     *json.Number    `json:"min_tokens"`
	N             *json.Number    `json:"n"`
	Stop          json.RawMessage `json:"stop"`
	StopTokenIDs  []uint32        `json:"stop_token_ids"`
	IgnoreEOS     *bool           `json:"ignore_eos"`
	sampling
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// sampling is passed through to the engine.
type sampling struct {
	Temperature       *float64 `json:"temperature,omitempty"`
	TopP              *float64 `json:"top_p,omitempty"`
	TopK              *int     `json:"top_k,omitempty"`
	MinP              *float64 `json:"min_p,omitempty"`
	Seed              *int64   `json:"seed,omitempty"`
	FrequencyPenalty  *float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty   *float64 `json:"presence_penalty,omitempty"`
	RepetitionPenalty *float64 `json:"repetition_penalty,omitempty"`
}

// invalidError returns the error of a request that makes no sense.
func invalidError(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, "invalid_request_error", fmt.Sprintf(format, args...)}
}

// decodeBody reads a body into one of the structs below.
func decodeBody(body []byte, into any) error {
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return invalidError("body is %.40q, want a JSON object", first)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return invalidError("body: %v", err)
	}
	return nil
}

// parseCommon takes over the keys that both flavours have.
func (a *asked) parseCommon() (*question, error) {
	q := &question{}
	if a.Model == nil || *a.Model == "" {
		return nil, invalidError("model is missing, want the name of one")
	}
	q.model = *a.Model
	q.stream = a.Stream != nil && *a.Stream
	if a.StreamOptions != nil {
		if !q.stream {
			return nil, invalidError("stream_options: only with stream")
		}
		q.usage = a.StreamOptions.IncludeUsage
	}
	n, err := parseCount("n", a.N)
	if err != nil {
		return nil, err
	}
	if n != nil && *n != 1 {
		return nil, invalidError("n is %d, want 1", *n)
	}
	if q.stop.MaxTokens, err = parseCount("max_tokens", a.MaxTokens); err != nil {
		return nil, err
	}
	if q.stop.MinTokens, err = parseCount("min_tokens", a.MinTokens); err != nil {
		return nil, err
	}
	if q.stop.Stop, err = parseStop(a.Stop); err != nil {
		return nil, err
	}
	q.stop.StopTokenIDs, q.stop.IgnoreEOS = a.StopTokenIDs, a.IgnoreEOS
	if a.sampling != (sampling{}) {
		if q.sample, err = json.Marshal(a.sampling); err != nil {
			return nil, invalidError("sampling: %v", err)
		}
	}
	return q, nil
}

// parseCount reads a number of tokens.
func parseCount(key string, n *json.Number) (*uint32, error) {
	if n == nil {
		return nil, nil
	}
	v, err := n.Int64()
	if err != nil || v < 0 || v > math.MaxUint32 {
		return nil, invalidError("%s is %.40s, want a whole number from 0 to %d", key, n.String(), uint32(math.MaxUint32))
	}
	u := uint32(v)
	return &u, nil
}

// parseStop reads one string or a list of them.
func parseStop(raw json.RawMessage) ([]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	var many []string
	if err := json.Unmarshal(raw, &many); err != nil {
		return nil, invalidError("stop is %.40s, want a string or a list of strings", raw)
	}
	return many, nil
}

// parseCompletion reads the body of /v1/completions.
func parseCompletion(body []byte) (*question, error) {
	var a struct {
		asked
		Prompt json.RawMessage `json:"prompt"`
		Echo   *bool           `json:"echo"`
		BestOf *json.Number    `json:"best_of"`
	}
	if err := decodeBody(body, &a); err != nil {
		return nil, err
	}
	q, err := a.parseCommon()
	if err != nil {
		return nil, err
	}
	if best, err := parseCount("best_of", a.BestOf); err != nil || best != nil && *best != 1 {
		return nil, invalidError("best_of is %s, want 1", a.BestOf)
	}
	q.echo = a.Echo != nil && *a.Echo
	return q, q.setPrompt(a.Prompt)
}

// setPrompt reads a prompt: a text, a list of token ids, or a list of one of
// either.
func (q *question) setPrompt(raw json.RawMessage) error {
	const want = "want a string, a list of token ids, or a list with one of either"
	if len(raw) == 0 || string(raw) == "null" {
		return invalidError("prompt is missing, %s", want)
	}
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &q.text); err != nil {
			return invalidError("prompt: %v", err)
		}
		return q.checkNotEmpty()
	}
	if json.Unmarshal(raw, &q.tokens) == nil && q.tokens != nil {
		return q.checkNotEmpty()
	}
	q.tokens = nil
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return invalidError("prompt is %.40s, %s", raw, want)
	}
	if len(list) != 1 {
		return invalidError("prompt is a list of %d, %s; token ids are whole numbers from 0 to %d", len(list), want, uint32(math.MaxUint32))
	}
	if inner := list[0]; inner[0] != '"' && (json.Unmarshal(inner, &q.tokens) != nil || q.tokens == nil) {
		return invalidError("prompt is [%.40s], %s", inner, want)
	}
	if q.tokens == nil {
		if err := json.Unmarshal(list[0], &q.text); err != nil {
			return invalidError("prompt: %v", err)
		}
	}
	return q.checkNotEmpty()
}

func (q *question) checkNotEmpty() error {
	if q.promptTokens() == 0 {
		return invalidError("prompt is empty, want at least one token")
	}
	return nil
}

// parseChat reads the body of /v1/chat/completions.
func parseChat(body []byte) (*question, error) {
	var a struct {
		asked
		Messages            []message    `json:"messages"`
		MaxCompletionTokens *json.Number `json:"max_completion_tokens"`
	}
	if err := decodeBody(body, &a); err != nil {
		return nil, err
	}
	if a.MaxCompletionTokens != nil {
		if a.MaxTokens != nil && *a.MaxTokens != *a.MaxCompletionTokens {
			return nil, invalidError("max_completion_tokens is %.40s and max_tokens is %.40s, want one of them", *a.MaxCompletionTokens, *a.MaxTokens)
		}
		a.MaxTokens = a.MaxCompletionTokens
	}
	q, err := a.parseCommon()
	if err != nil {
		return nil, err
	}
	if len(a.Messages) == 0 {
		return nil, invalidError("messages are missing, want at least one")
	}
	q.text, err = joinMessages(a.Messages)
	return q, err
}

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
