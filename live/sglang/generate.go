package sglang

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/openai"
	"github.com/replay-llm/replay/live/standalone"
)

// generateRequest is the body of /generate. Other keys are ignored.
type generateRequest struct {
	Text     json.RawMessage            `json:"text"`      // a string, or a list of strings
	InputIDs json.RawMessage            `json:"input_ids"` // token ids, or a list of such lists
	Sampling map[string]json.RawMessage `json:"sampling_params"`
	Stream   bool                       `json:"stream"`
	ID       json.RawMessage            `json:"rid"` // a string, or a list of strings
	LogProb  bool                       `json:"return_logprob"`
}

// openAINames maps sampling parameters of SGLang to the names in OpenAI's API, if the two differ.
func openAINames() map[string]string {
	return map[string]string{"max_new_tokens": "max_tokens", "min_new_tokens": "min_tokens", "sampling_seed": "seed"}
}

// defaultNewTokens is the default of max_new_tokens.
const defaultNewTokens = "128"

// parseGenerate converts the body of /generate to a completion request and checks it as such. ids are the request ids
// in the body. list reports that the response is a list.
func (s *Server) parseGenerate(body []byte) (rq *openai.Request, ids []string, list bool, err error) {
	var g generateRequest
	if err := json.Unmarshal(body, &g); err != nil {
		return nil, nil, false, openai.Refuse("", "body: %v", err)
	}
	prompt := g.Text
	switch {
	case (len(g.Text) > 0) == (len(g.InputIDs) > 0):
		return nil, nil, false, openai.Refuse("text", "text and input_ids are mutually exclusive, and one is required")
	case g.LogProb:
		return nil, nil, false, openai.Refuse("return_logprob", "return_logprob is true, which is not supported: the engine is simulated and draws its tokens at random")
	case len(g.Text) == 0:
		prompt = g.InputIDs
	}
	asked := map[string]json.RawMessage{"prompt": prompt, "max_tokens": json.RawMessage(defaultNewTokens), "return_token_ids": json.RawMessage("true")}
	if g.Stream {
		asked["stream"] = json.RawMessage("true")
	}
	for key, value := range g.Sampling {
		if name, ok := openAINames()[key]; ok {
			key = name
		}
		asked[key] = value
	}
	b, err := json.Marshal(asked)
	if err != nil {
		return nil, nil, false, err
	}
	if rq, err = openai.Parse(openai.Completions, b, s.Options.Tokenize); err == nil {
		err = rq.Fit(s.Served.ContextLength)
	}
	if err != nil {
		return nil, nil, false, err
	}
	list = rq.Choices() > 1 || prompt[0] == '[' && (prompt[min(1, len(prompt)-1)] == '[' || prompt[min(1, len(prompt)-1)] == '"')
	return rq, readIDs(g.ID), list, nil
}

// readIDs returns the ids in the key rid of a request.
func readIDs(raw json.RawMessage) (ids []string) {
	var one string
	if json.Unmarshal(raw, &one) == nil && one != "" {
		return []string{one}
	}
	_ = json.Unmarshal(raw, &ids) // nil: the request has no ids
	return ids
}

// answered is the state of one answer.
type answered struct {
	text    []byte
	tokens  []uint32
	reason  string
	matched json.RawMessage
}

// finish is the finish reason in a response.
type finish struct {
	Type    string          `json:"type"`
	Length  int             `json:"length,omitempty"`
	Matched json.RawMessage `json:"matched,omitempty"`
	Message string          `json:"message,omitempty"`
}

// result is one answer in the response format.
type result struct {
	Text      string   `json:"text"`
	OutputIDs []uint32 `json:"output_ids"`
	Meta      meta     `json:"meta_info"`
	Index     *int     `json:"index,omitempty"`
}

type meta struct {
	ID               string  `json:"id"`
	Finish           *finish `json:"finish_reason"`
	PromptTokens     int     `json:"prompt_tokens"`
	WeightVersion    string  `json:"weight_version"`
	CompletionTokens int     `json:"completion_tokens"`
	CachedTokens     uint32  `json:"cached_tokens"`
	Latency          float64 `json:"e2e_latency,omitempty"` // in seconds; only after the end
}

// generating is one request to /generate.
type generating struct {
	server *Server
	w      http.ResponseWriter
	rq     *openai.Request
	ids    []string
	list   bool
	began  time.Time
	rc     cancel.Context
	answer *openai.Answer
	all    []answered
}

// serveGenerate serves /generate, the native API of SGLang.
func (s *Server) serveGenerate(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	body, err := standalone.ReadBody(w, r)
	if err != nil {
		writeFailure(w, err)
		return
	}
	g := &generating{server: s, w: w, began: began, rc: cancel.New("")}
	if g.rq, g.ids, g.list, err = s.parseGenerate(body); err != nil {
		writeFailure(w, err)
		return
	}
	g.all = make([]answered, g.rq.Choices())
	g.answer = openai.NewAnswer(g.rq, g.rc.ID(), s.Served.Name, began, began)
	ctx, release := context.WithCancel(context.WithoutCancel(r.Context()))
	defer release()
	defer context.AfterFunc(r.Context(), g.rc.Kill)()
	if g.rq.Stream {
		g.writeStream(ctx)
	} else {
		g.writeWhole(ctx)
	}
}

// writeFailure writes an error response.
func writeFailure(w http.ResponseWriter, err error) {
	e := openai.ErrorOf(err)
	if e.Flat {
		standalone.WriteBytes(w, e.Status, e.AppendJSON(nil))
		return
	}
	standalone.WriteJSON(w, e.Status, map[string]any{"error": map[string]string{"message": e.Message}})
}

// addPiece adds a piece to the text and tokens of its answer.
func (g *generating) addPiece(p *openai.Piece) {
	a := &g.all[p.Choice]
	a.text, a.tokens, a.reason, a.matched = append(a.text, p.Text...), append(a.tokens, p.TokenIDs()...), p.Reason, p.StopReason()
}

// resultOf returns answer i in the response format.
func (g *generating) resultOf(i int) *result {
	a := &g.all[i]
	prompt := i / g.rq.N
	r := &result{Text: string(a.text), OutputIDs: a.tokens, Meta: meta{
		ID: g.idOf(i), PromptTokens: len(g.rq.Prompts[prompt].Tokens), WeightVersion: "default", CompletionTokens: len(a.tokens), CachedTokens: g.answer.Cached(i),
	}}
	if r.OutputIDs == nil {
		r.OutputIDs = []uint32{}
	}
	if a.reason != "" {
		r.Meta.Finish, r.Meta.Latency = &finish{Type: a.reason}, time.Since(g.began).Seconds()
		switch a.reason {
		case "length":
			r.Meta.Finish.Length = len(a.tokens)
		case "stop":
			r.Meta.Finish.Matched = a.matched
		}
	}
	return r
}

// idOf returns the id of answer i.
func (g *generating) idOf(i int) string {
	switch {
	case i < len(g.ids):
		return g.ids[i]
	case len(g.all) == 1:
		return g.rc.ID()
	}
	return g.rc.ID() + "_" + strconv.Itoa(i)
}

// writeWhole writes the response after all answers have ended.
func (g *generating) writeWhole(ctx context.Context) {
	for p, err := range g.answer.Generate(ctx, g.rc, g.server.Served.Target, nil) {
		if err != nil {
			if !g.rc.IsStopped() { // the client is still connected
				writeFailure(g.w, err)
			}
			return
		}
		g.addPiece(p)
	}
	if g.rc.IsStopped() {
		return // the client has disconnected
	}
	if !g.list {
		standalone.WriteJSON(g.w, http.StatusOK, g.resultOf(0))
		return
	}
	all := make([]*result, len(g.all))
	for i := range all {
		all[i] = g.resultOf(i)
	}
	standalone.WriteJSON(g.w, http.StatusOK, all)
}

// writeStream writes a stream of events. Each event has the whole text of its answer so far.
func (g *generating) writeStream(ctx context.Context) {
	begun := false
	control := http.NewResponseController(g.w)
	send := func(data []byte) error {
		if !begun {
			begun = true
			g.w.Header().Set("Content-Type", "text/event-stream")
			g.w.WriteHeader(http.StatusOK)
		}
		_ = control.SetWriteDeadline(time.Now().Add(30 * time.Second))
		_, err := g.w.Write(append(append([]byte("data: "), data...), "\n\n"...))
		return g.server.Front.NoteWrite(g.server.Served.Name, g.rc.ID(), errors.Join(err, control.Flush()))
	}
	for p, err := range g.answer.Generate(ctx, g.rc, g.server.Served.Target, nil) {
		if err != nil && g.rc.IsStopped() {
			return
		}
		if err != nil && !begun {
			writeFailure(g.w, err)
			return
		}
		var b []byte
		if err != nil {
			b, _ = json.Marshal(map[string]any{"error": map[string]string{"message": openai.ErrorOf(err).Message}})
		} else {
			g.addPiece(p)
			r := g.resultOf(p.Choice)
			if g.list {
				r.Index = &p.Choice
			}
			b, _ = json.MarshalUnescaped(r)
		}
		if send(b) != nil {
			g.rc.Kill()
			return
		}
	}
	_ = send([]byte("[DONE]"))
}
