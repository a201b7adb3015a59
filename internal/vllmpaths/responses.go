package vllmpaths

import (
	"net/http"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/json"
)

// responsesRequest is a request to /v1/responses.
type responsesRequest struct {
	Model        string            `json:"model"`
	Input        json.RawMessage   `json:"input"`
	Instructions *string           `json:"instructions"`
	Stream       bool              `json:"stream"`
	Most         *int              `json:"max_output_tokens"`
	Temperature  *float64          `json:"temperature"`
	TopP         *float64          `json:"top_p"`
	Seed         *int64            `json:"seed"`
	IgnoreEOS    *bool             `json:"ignore_eos"`
	Tools        []json.RawMessage `json:"tools"`
	Choice       json.RawMessage   `json:"tool_choice"`
	Previous     *string           `json:"previous_response_id"`
	Background   bool              `json:"background"`
	Metadata     json.RawMessage   `json:"metadata"`
	Text         struct {
		Format json.RawMessage `json:"format"`
	} `json:"text"`
}

// item is an item of an answer or of the input of a request.
type item struct {
	ID        string          `json:"id,omitempty"`
	Type      string          `json:"type"`
	Status    string          `json:"status,omitempty"`
	Role      string          `json:"role,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	CallID    string          `json:"call_id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments *string         `json:"arguments,omitempty"`
}

// response is an answer of /v1/responses.
type response struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Created      int64             `json:"created_at"`
	Status       string            `json:"status"`
	Error        *problem          `json:"error"`
	Incomplete   *reason           `json:"incomplete_details"`
	Instructions *string           `json:"instructions"`
	Most         *int              `json:"max_output_tokens"`
	Model        string            `json:"model"`
	Output       []item            `json:"output"`
	Parallel     bool              `json:"parallel_tool_calls"`
	Temperature  *float64          `json:"temperature"`
	TopP         *float64          `json:"top_p"`
	Choice       json.RawMessage   `json:"tool_choice"`
	Tools        []json.RawMessage `json:"tools"`
	Metadata     json.RawMessage   `json:"metadata"`
	Usage        *responseUsage    `json:"usage"`
}

type reason struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	Input        int     `json:"input_tokens"`
	InputDetails details `json:"input_tokens_details"`
	Output       int     `json:"output_tokens"`
	OutDetails   struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

// delta is the message of a chat answer, or a part of it in an event.
type delta struct {
	Content *string `json:"content"`
	Calls   []call  `json:"tool_calls"`
}

// call is a tool call.
type call struct {
	Index    int    `json:"index"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// chat is a chat answer, or an event of its stream.
type chat struct {
	Model   string          `json:"model"`
	Error   json.RawMessage `json:"error"`
	Choices []struct {
		Message delta   `json:"message"`
		Delta   delta   `json:"delta"`
		Reason  *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

// Responses serves POST /v1/responses with the handler for chats. Responses does not store answers.
func Responses(chats http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q responsesRequest
		if !readJSON(w, r, &q) {
			return
		}
		switch {
		case q.Previous != nil:
			refuseValue(w, "previous_response_id", "previous_response_id is not supported: responses are not stored")
			return
		case q.Background:
			refuseValue(w, "background", "background is not supported: responses are not stored")
			return
		}
		messages, bad := q.messages()
		if bad != "" {
			refuseValue(w, "input", bad)
			return
		}
		a := q.newResponse()
		next := forwardTo(r, "/v1/chat/completions", q.chat(messages))
		if q.Stream {
			s := &responseStream{response: a}
			chats.ServeHTTP(&events{ResponseWriter: w, on: s.translate}, next)
			return
		}
		k := newKept()
		chats.ServeHTTP(k, next)
		var c chat
		if k.status != http.StatusOK || json.Unmarshal(k.body.Bytes(), &c) != nil || len(c.Choices) == 0 {
			k.send(w)
			return
		}
		m := c.Choices[0].Message
		if m.Content != nil && (*m.Content != "" || len(m.Calls) == 0) {
			a.Output = append(a.Output, newMessage("msg_"+newID(), *m.Content, "completed"))
		}
		for _, one := range m.Calls {
			a.Output = append(a.Output, newCall("fc_"+newID(), one.ID, one.Function.Name, one.Function.Arguments, "completed"))
		}
		a.finish(&c, c.Choices[0].Reason)
		writeJSON(w, http.StatusOK, a)
	}
}

// messages returns the input as chat messages. bad describes an invalid input.
func (q *responsesRequest) messages() (messages []map[string]any, bad string) {
	add := func(role string, content any) {
		messages = append(messages, map[string]any{"role": role, "content": content})
	}
	if q.Instructions != nil {
		add("system", *q.Instructions)
	}
	const rule = "input: must be a text or a list of messages"
	var text string
	if len(q.Input) == 0 {
		return nil, rule
	}
	if json.Unmarshal(q.Input, &text) == nil {
		add("user", text)
		return messages, ""
	}
	var items []struct {
		item
		Output json.RawMessage `json:"output"`
	}
	if json.Unmarshal(q.Input, &items) != nil || len(items) == 0 {
		return nil, rule
	}
	for _, one := range items {
		switch one.Type {
		case "", "message":
			if json.Unmarshal(one.Content, &text) == nil {
				add(one.Role, text)
				continue
			}
			var parts []struct{ Type, Text string }
			if json.Unmarshal(one.Content, &parts) != nil {
				return nil, rule
			}
			var all strings.Builder
			for _, p := range parts {
				if p.Type != "input_text" && p.Type != "output_text" && p.Type != "text" {
					return nil, "input: content of type " + p.Type + " is not supported: must be input_text or output_text"
				}
				all.WriteString(p.Text)
			}
			add(one.Role, all.String())
		case "function_call":
			arguments := ""
			if one.Arguments != nil {
				arguments = *one.Arguments
			}
			add("assistant", one.Name+arguments)
		case "function_call_output":
			add("tool", strings.Trim(string(one.Output), `"`))
		case "reasoning":
		default:
			return nil, "input: an item of type " + one.Type + " is not supported: must be message, function_call or function_call_output"
		}
	}
	return messages, ""
}

// chat returns the body of the chat request.
func (q *responsesRequest) chat(messages []map[string]any) map[string]any {
	body := map[string]any{"messages": messages}
	set := func(key string, there bool, v any) {
		if there {
			body[key] = v
		}
	}
	set("model", q.Model != "", q.Model)
	set("max_completion_tokens", q.Most != nil, q.Most)
	set("temperature", q.Temperature != nil, q.Temperature)
	set("top_p", q.TopP != nil, q.TopP)
	set("seed", q.Seed != nil, q.Seed)
	set("ignore_eos", q.IgnoreEOS != nil, q.IgnoreEOS)
	set("stream", q.Stream, true)
	set("stream_options", q.Stream, map[string]bool{"include_usage": true})
	var tools []any
	for _, raw := range q.Tools {
		var f map[string]json.RawMessage
		if json.Unmarshal(raw, &f) == nil && string(f["type"]) == `"function"` {
			delete(f, "type")
			tools = append(tools, map[string]any{"type": "function", "function": f})
		}
	}
	set("tools", tools != nil, tools)
	var named struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	switch {
	case len(q.Choice) == 0 || tools == nil:
	case json.Unmarshal(q.Choice, &named) == nil && named.Name != "":
		body["tool_choice"] = map[string]any{"type": "function", "function": map[string]string{"name": named.Name}}
	default:
		body["tool_choice"] = q.Choice
	}
	var format map[string]json.RawMessage
	if json.Unmarshal(q.Text.Format, &format) == nil && string(format["type"]) != `"text"` {
		kind := format["type"]
		delete(format, "type")
		set("response_format", len(kind) > 0, map[string]any{"type": kind, "json_schema": format})
	}
	return body
}

// newResponse returns an answer without output.
func (q *responsesRequest) newResponse() *response {
	a := &response{
		ID: "resp_" + newID(), Object: "response", Created: time.Now().Unix(), Status: "in_progress", Instructions: q.Instructions, Most: q.Most,
		Model: q.Model, Output: []item{}, Parallel: true, Temperature: q.Temperature, TopP: q.TopP, Choice: q.Choice, Tools: q.Tools, Metadata: q.Metadata,
	}
	if a.Choice == nil {
		a.Choice = json.RawMessage(`"auto"`)
	}
	if a.Tools == nil {
		a.Tools = []json.RawMessage{}
	}
	return a
}

// finish records how the chat ended.
func (a *response) finish(c *chat, why *string) {
	a.Status = "completed"
	if c.Model != "" {
		a.Model = c.Model
	}
	if why != nil && *why == "length" {
		a.Status, a.Incomplete = "incomplete", &reason{"max_output_tokens"}
	}
	if u := c.Usage; u != nil {
		a.Usage = &responseUsage{Input: u.Prompt, Output: u.Completion, Total: u.Total}
		if u.Details != nil {
			a.Usage.InputDetails = *u.Details
		}
	}
}

// part is a text of a message.
type part struct {
	Type        string   `json:"type"`
	Text        string   `json:"text"`
	Annotations []string `json:"annotations"`
}

func newPart(text string) part { return part{"output_text", text, []string{}} }

// newMessage returns an item with a message.
func newMessage(id, text, status string) item {
	content, err := json.MarshalUnescaped([]part{newPart(text)})
	if err != nil {
		panic(err) // encoding texts cannot fail
	}
	if status == "in_progress" {
		content = json.RawMessage("[]")
	}
	return item{ID: id, Type: "message", Status: status, Role: "assistant", Content: content}
}

// newCall returns an item with a tool call.
func newCall(id, callID, name, arguments, status string) item {
	return item{ID: id, Type: "function_call", Status: status, CallID: callID, Name: name, Arguments: &arguments}
}

// responseStream translates the events of a chat into events of /v1/responses.
type responseStream struct {
	*response
	out    []byte
	number int
	open   *item // the item that is being written
	text   strings.Builder
	why    *string
}

// emit appends an event.
func (s *responseStream) emit(kind string, keys map[string]any) {
	if keys == nil {
		keys = map[string]any{}
	}
	keys["type"], keys["sequence_number"] = kind, s.number
	s.number++
	b, err := json.MarshalUnescaped(keys)
	if err != nil {
		panic(err) // encoding texts and numbers cannot fail
	}
	s.out = append(append(append(s.out, "event: "+kind+"\ndata: "...), b...), "\n\n"...)
}

// at returns the keys for an event about the open item.
func (s *responseStream) at(more map[string]any) map[string]any {
	more["item_id"], more["output_index"] = s.open.ID, len(s.Output)
	if s.open.Type == "message" {
		more["content_index"] = 0
	}
	return more
}

// begin opens an item.
func (s *responseStream) begin(one item) {
	s.end()
	s.open = &one
	s.text.Reset()
	s.emit("response.output_item.added", map[string]any{"output_index": len(s.Output), "item": one})
	if one.Type == "message" {
		s.emit("response.content_part.added", s.at(map[string]any{"part": newPart("")}))
	}
}

// end closes the open item, if any.
func (s *responseStream) end() {
	if s.open == nil {
		return
	}
	text, whole := s.text.String(), *s.open
	if whole.Type == "message" {
		s.emit("response.output_text.done", s.at(map[string]any{"text": text}))
		s.emit("response.content_part.done", s.at(map[string]any{"part": newPart(text)}))
		whole = newMessage(whole.ID, text, "completed")
	} else {
		s.emit("response.function_call_arguments.done", s.at(map[string]any{"arguments": text}))
		whole = newCall(whole.ID, whole.CallID, whole.Name, text, "completed")
	}
	s.emit("response.output_item.done", map[string]any{"output_index": len(s.Output), "item": whole})
	s.Output, s.open = append(s.Output, whole), nil
}

// translate returns the events that replace an event of a chat.
func (s *responseStream) translate(data []byte) []byte {
	s.out = s.out[:0]
	if s.number == 0 {
		s.emit("response.created", map[string]any{"response": s.response})
		s.emit("response.in_progress", map[string]any{"response": s.response})
	}
	var c chat
	if string(data) == "[DONE]" || json.Unmarshal(data, &c) != nil {
		return s.out
	}
	switch {
	case len(c.Error) > 0:
		s.Status = "failed"
		s.emit("response.failed", map[string]any{"response": s.response, "error": c.Error})
	case len(c.Choices) > 0:
		s.add(&c.Choices[0].Delta)
		if c.Choices[0].Reason != nil {
			s.why = c.Choices[0].Reason
		}
	case c.Usage != nil:
		s.end()
		s.finish(&c, s.why)
		s.emit("response."+s.Status, map[string]any{"response": s.response})
	}
	return s.out
}

// add appends a part of the message or of the tool calls.
func (s *responseStream) add(d *delta) {
	for _, one := range d.Calls {
		if one.Function.Name != "" {
			s.begin(newCall("fc_"+newID(), one.ID, one.Function.Name, "", "in_progress"))
		}
		if s.open != nil && one.Function.Arguments != "" {
			s.text.WriteString(one.Function.Arguments)
			s.emit("response.function_call_arguments.delta", s.at(map[string]any{"delta": one.Function.Arguments}))
		}
	}
	if d.Content == nil || *d.Content == "" {
		return
	}
	if s.open == nil {
		s.begin(newMessage("msg_"+newID(), "", "in_progress"))
	}
	s.text.WriteString(*d.Content)
	s.emit("response.output_text.delta", s.at(map[string]any{"delta": *d.Content, "logprobs": []string{}}))
}
