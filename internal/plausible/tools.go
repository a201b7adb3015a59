package plausible

import (
	"bytes"
	"errors"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// answer replaces the text that the engine generates for a request.
type answer struct {
	name   string   // name of the called tool; "": no tool call
	id     string   // id of the tool call
	pieces []string // the JSON, split into one piece per token
	cut    bool     // max_tokens is less than the number of pieces
	next   []int    // number of pieces sent, by choice
	begun  []bool   // whether the name of the tool was sent, by choice
	chat   bool
}

// tool is a function in the tools of a request.
type tool struct {
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// Wrap returns next with generated tool calls and JSON by schema. The engine generates as many tokens as the JSON
// has. tokenize counts tokens, and fail writes an error. Equal requests get equal JSON.
func Wrap(next http.Handler, tokenize func(string) []uint32, fail func(w http.ResponseWriter, key, message string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chat := strings.HasSuffix(r.URL.Path, "/chat/completions")
		if !chat && !strings.HasSuffix(r.URL.Path, "/completions") {
			next.ServeHTTP(w, r)
			return
		}
		const most = 8 << 20
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
		if err != nil {
			fail(w, "", "body: must be at most 8388608 bytes")
			return
		}
		q := map[string]json.RawMessage{}
		if json.Unmarshal(body, &q) != nil {
			next.ServeHTTP(w, withBody(r, body))
			return
		}
		a, key, err := newAnswer(q, body, chat, tokenize)
		if err != nil {
			fail(w, key, key+": "+err.Error())
			return
		}
		if a == nil {
			if _, offered := q["tools"]; !offered || !chat {
				next.ServeHTTP(w, withBody(r, body))
				return
			}
			delete(q, "tools")
			delete(q, "tool_choice")
		}
		changed, err := json.MarshalUnescaped(q)
		if err != nil {
			panic(err) // encoding decoded raw values cannot fail
		}
		if a == nil {
			next.ServeHTTP(w, withBody(r, changed))
			return
		}
		next.ServeHTTP(&writer{ResponseWriter: w, answer: a}, withBody(r, changed))
	})
}

// withBody returns a copy of r with the body b.
func withBody(r *http.Request, b []byte) *http.Request {
	next := r.Clone(r.Context())
	next.ContentLength, next.Body = int64(len(b)), io.NopCloser(bytes.NewReader(b))
	return next
}

// newAnswer returns the answer to a request, or nil if the text of the engine is the answer. newAnswer changes the
// request so that the engine generates the same number of tokens. For an error newAnswer returns the invalid key.
func newAnswer(q map[string]json.RawMessage, body []byte, chat bool, tokenize func(string) []uint32) (a *answer, key string, err error) {
	h := fnv.New64a()
	h.Write(body)
	seed := h.Sum64()
	a = &answer{chat: chat}
	var text []byte
	schema, key, ok := formatOf(q)
	if chat {
		called, tools, err := toolOf(q, seed)
		switch {
		case err != nil:
			return nil, "tools", err
		case called != nil:
			a.name, a.id, schema, key, ok = called.Function.Name, "chatcmpl-tool-"+strconv.FormatUint(seed|1<<63, 16), called.Function.Parameters, "tools", true
			if len(schema) == 0 || string(schema) == "null" {
				schema = json.RawMessage(`{"type":"object"}`)
			}
		}
		addTools(q, tools)
	}
	if !ok {
		return nil, "", nil
	}
	if text, err = Value(schema, seed); err != nil {
		return nil, key, err
	}
	count := max(1, len(tokenize(string(text))))
	a.pieces = splitText(string(text), count)
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		var most int
		if json.Unmarshal(q[name], &most) == nil && most > 0 && most < len(a.pieces) {
			a.pieces, a.cut = a.pieces[:most], true
		}
		delete(q, name)
	}
	for _, name := range []string{
		"tools", "tool_choice", "response_format", "structured_outputs", "guided_json", "guided_choice", "guided_regex",
		"min_tokens", "stop", "stop_token_ids", "logprobs", "top_logprobs", "return_token_ids",
	} {
		delete(q, name)
	}
	q["max_tokens"], q["ignore_eos"] = json.RawMessage(strconv.Itoa(len(a.pieces))), json.RawMessage("true")
	return a, "", nil
}

// formatOf returns the schema that the answer must match, and the key of the request that contains it.
func formatOf(q map[string]json.RawMessage) (schema json.RawMessage, key string, ok bool) {
	var format struct {
		Type   string `json:"type"`
		Schema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if json.Unmarshal(q["response_format"], &format) == nil {
		switch {
		case format.Type == "json_object":
			return json.RawMessage(`{"type":"object","required":["answer"],"properties":{"answer":{"type":"string"}}}`), "response_format", true
		case format.Type == "json_schema" && len(format.Schema.Schema) > 0:
			return format.Schema.Schema, "response_format", true
		}
	}
	var structured map[string]json.RawMessage
	if json.Unmarshal(q["structured_outputs"], &structured) == nil && len(structured["json"]) > 0 {
		return unquoteSchema(structured["json"]), "structured_outputs", true
	}
	if raw, ok := q["guided_json"]; ok && string(raw) != "null" {
		return unquoteSchema(raw), "guided_json", true
	}
	return nil, "", false
}

// unquoteSchema returns a schema. Some requests have the schema as a JSON string.
func unquoteSchema(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return json.RawMessage(text)
	}
	return raw
}

// toolOf returns the tool that the answer calls, or nil, and the unchanged JSON of all tools. With tool_choice auto,
// half of the requests call a tool.
func toolOf(q map[string]json.RawMessage, seed uint64) (called *tool, raw json.RawMessage, err error) {
	raw = q["tools"]
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil, nil
	}
	var tools []tool
	if err := json.Unmarshal(raw, &tools); err != nil {
		return nil, nil, err
	}
	if len(tools) == 0 {
		return nil, nil, errors.New("must not be an empty list")
	}
	draw := rand.New(rand.NewPCG(seed, 0x746f6f6c))
	choice := q["tool_choice"]
	var named tool
	switch {
	case string(choice) == `"none"`:
		return nil, raw, nil
	case string(choice) == `"required"`:
	case len(choice) == 0, string(choice) == "null", string(choice) == `"auto"`:
		if draw.IntN(2) == 0 {
			return nil, raw, nil
		}
	case json.Unmarshal(choice, &named) == nil:
		for i := range tools {
			if tools[i].Function.Name == named.Function.Name {
				return &tools[i], raw, nil
			}
		}
		return nil, nil, excerpt.Errorf("tool_choice is %q, must be the name of a tool", named.Function.Name)
	default:
		return nil, nil, excerpt.Errorf("tool_choice is %.40s, must be none, auto, required or a tool", choice)
	}
	return &tools[draw.IntN(len(tools))], raw, nil
}

// addTools adds the tools to the prompt, like chat templates of models.
func addTools(q map[string]json.RawMessage, tools json.RawMessage) {
	var messages []json.RawMessage
	if len(tools) == 0 || json.Unmarshal(q["messages"], &messages) != nil {
		return
	}
	first, err := json.MarshalUnescaped(map[string]string{"role": "system", "content": string(tools)})
	if err != nil {
		panic(err) // encoding a text cannot fail
	}
	all, err := json.MarshalUnescaped(append([]json.RawMessage{first}, messages...))
	if err != nil {
		panic(err) // encoding decoded raw values cannot fail
	}
	q["messages"] = all
}

// splitText splits a text of ASCII and other characters into n pieces.
func splitText(text string, n int) []string {
	runes := []rune(text)
	n = min(n, max(1, len(runes)))
	pieces := make([]string, n)
	for i := range pieces {
		pieces[i] = string(runes[i*len(runes)/n : (i+1)*len(runes)/n])
	}
	return pieces
}

// writer replaces the generated text in the answer of the engine.
type writer struct {
	http.ResponseWriter
	*answer
	status int
	stream bool
	rest   []byte
}

// Unwrap returns the wrapped ResponseWriter, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader removes Content-Length, because the length changes.
func (w *writer) WriteHeader(status int) {
	w.status = status
	w.stream = strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
	if status == http.StatusOK {
		w.Header().Del("Content-Length")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write translates a document, or one or more whole events.
func (w *writer) Write(b []byte) (int, error) {
	out := b
	switch {
	case w.status != http.StatusOK:
	case !w.stream:
		out = w.change(b)
	default:
		out = nil
		w.rest = append(w.rest, b...)
		for {
			at := bytes.Index(w.rest, []byte("\n\n"))
			if at < 0 {
				break
			}
			data := bytes.TrimPrefix(w.rest[:at], []byte("data: "))
			out = append(append(append(out, "data: "...), w.change(data)...), "\n\n"...)
			w.rest = w.rest[at+2:]
		}
	}
	if len(out) > 0 {
		if _, err := w.ResponseWriter.Write(out); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// change returns a document or an event with the replaced text.
func (w *writer) change(data []byte) []byte {
	var doc map[string]json.RawMessage
	var choices []map[string]json.RawMessage
	if json.Unmarshal(data, &doc) != nil || json.Unmarshal(doc["choices"], &choices) != nil || len(choices) == 0 {
		return data
	}
	for _, c := range choices {
		var index int
		_ = json.Unmarshal(c["index"], &index)
		for len(w.next) <= index {
			w.next, w.begun = append(w.next, 0), append(w.begun, false)
		}
		w.changeChoice(c, index)
	}
	doc["choices"] = marshalJSON(choices)
	return marshalJSON(doc)
}

// changeChoice replaces the text of a choice.
func (w *writer) changeChoice(c map[string]json.RawMessage, index int) {
	end := len(c["finish_reason"]) > 0 && string(c["finish_reason"]) != "null"
	switch {
	case !end:
	case string(c["finish_reason"]) != `"length"`: // the request was aborted
	case w.cut:
	case w.name != "":
		c["finish_reason"] = json.RawMessage(`"tool_calls"`)
	default:
		c["finish_reason"] = json.RawMessage(`"stop"`)
	}
	if !w.stream {
		text := strings.Join(w.pieces, "")
		switch {
		case !w.chat:
			c["text"] = marshalJSON(text)
		case w.name != "":
			c["message"] = marshalJSON(map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{w.call(text, true)}})
		default:
			c["message"] = marshalJSON(map[string]any{"role": "assistant", "content": text})
		}
		return
	}
	var delta map[string]json.RawMessage
	_ = json.Unmarshal(c["delta"], &delta)
	if len(delta["role"]) > 0 {
		return
	}
	n := w.next[index]
	to := min(n+1, len(w.pieces))
	if end {
		to = len(w.pieces)
	}
	text := strings.Join(w.pieces[n:to], "")
	w.next[index] = to
	switch {
	case !w.chat:
		c["text"] = marshalJSON(text)
	case w.name != "":
		one := w.call(text, !w.begun[index])
		one["index"] = 0
		w.begun[index] = true
		c["delta"] = marshalJSON(map[string]any{"tool_calls": []any{one}})
	default:
		c["delta"] = marshalJSON(map[string]any{"content": text})
	}
}

// call returns a tool call with a part of its arguments.
func (w *writer) call(arguments string, first bool) map[string]any {
	if !first {
		return map[string]any{"function": map[string]string{"arguments": arguments}}
	}
	return map[string]any{"id": w.id, "type": "function", "function": map[string]string{"name": w.name, "arguments": arguments}}
}

// marshalJSON returns v as JSON.
func marshalJSON(v any) []byte {
	b, err := json.MarshalUnescaped(v)
	if err != nil {
		panic(err) // encoding texts and raw values cannot fail
	}
	return b
}
