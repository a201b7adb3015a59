package frontend

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/openai"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/telemetry"
)

// parting is the time between the departure of a client, which stops its request, and the kill of the request.
const parting = 5 * time.Second

// answerHandler returns the handler of requests of a kind.
func (s *Server) answerHandler(kind openai.Kind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		body, release, err := s.readBody(w, r)
		if err != nil {
			s.refuse(w, kind, err)
			return
		}
		defer release()
		rq, err := openai.Parse(kind, body, s.config.Tokenize)
		if err != nil {
			s.refuse(w, kind, err)
			return
		}
		m, err := s.findModel(rq)
		if err != nil {
			s.refuse(w, kind, err)
			return
		}
		if len(rq.Ignored) > 0 {
			s.config.Log.Debug("keys of a request that mean nothing here", "keys", rq.Ignored)
		}
		leave, ok := s.admitRequest(w, r, kind)
		if !ok {
			return
		}
		defer leave()
		s.answerRequest(w, r, &reply{server: s, request: rq, model: m, w: w, r: r, began: began})
	}
}

// findModel returns the model that a request names, and fits the request to the context length of the model.
func (s *Server) findModel(rq *openai.Request) (route.Served, error) {
	m, ok := s.config.Models.Find(rq.Model)
	switch {
	case ok:
		return m, rq.Fit(m.ContextLength)
	case rq.Model == "":
		return m, openai.Refuse("model", "model is missing, must be the name of one")
	}
	return m, openai.UnknownModel(rq.Model, s.modelNames())
}

// modelNames returns the names of all served models.
func (s *Server) modelNames() (names []string) {
	served, _ := s.config.Models.Models()
	for _, m := range served {
		names = append(names, m.Name)
	}
	return names
}

// refuse answers with the error of a request before its model is called, and counts the error.
func (s *Server) refuse(w http.ResponseWriter, kind openai.Kind, err error) {
	e := openai.ErrorOf(err)
	s.config.Metrics.Refused(string(kind), e.Status, e.Parameter())
	_ = s.writeError(w, e)
}

// reply is the state of the answer to one request.
type reply struct {
	server  *Server
	request *openai.Request
	model   route.Served
	w       http.ResponseWriter
	r       *http.Request

	rc     cancel.Context
	client context.Context // ends when the client leaves
	began  time.Time       // when the request arrived, before it waited for a slot
	answer *openai.Answer

	// Fields of a stream. buf has the events to send, behind listen.ChunkRoom bytes; nil: no events. The write
	// deadline is renewed after limited.
	buf     *[]byte
	control *http.ResponseController
	limited time.Time
	conn    net.Conn // chunks are written to conn after the header; nil: they are written to w

	held   int // bytes acquired from server.answers
	size   int // bytes of an answer that is written in one piece
	tokens int
	status int
	whole  bool // the client has received the complete answer
	failed error
}

// answerRequest calls the model and writes the answer. A client that leaves stops its request.
func (s *Server) answerRequest(w http.ResponseWriter, r *http.Request, a *reply) {
	id := r.Header.Get("X-Request-Id")
	if !cancel.IsID(id) {
		id = ""
	}
	a.rc, a.client = cancel.New(id), r.Context()
	defer s.beginRequest(a.rc)()
	w.Header().Set("X-Request-Id", a.rc.ID())
	a.status = http.StatusOK
	name, kind, m := string(a.request.Kind), telemetry.Unary, s.config.Metrics
	if a.request.Stream {
		kind = telemetry.Stream
	}
	m.Started(a.model.Name)
	defer func() { m.Finished(a.model.Name, name, kind, a.status, time.Since(a.began)) }()

	ctx, release := context.WithCancel(context.WithoutCancel(r.Context()))
	defer release()
	headers := headersOf(r)
	ctx, span := s.config.Tracing.StartHTTP(telemetry.Extract(ctx, headers), r.Method, r.URL.Path)
	defer span.End()
	over := make(chan struct{})
	stay := context.AfterFunc(r.Context(), func() { cancel.StopThenKill(a.rc, over, parting) })
	a.callModel(cancel.With(ctx, a.rc), headers)
	s.answers.Release(int64(a.held))
	close(over)
	// A client that leaves after the complete answer does not count as cancelled.
	left := !stay() || r.Context().Err() != nil || a.failed != nil
	if left && !a.whole && s.ending.Err() == nil {
		a.status = statusLeft
		m.Cancelled(a.model.Name, name, kind)
	}
	m.Tokens(a.model.Name, a.request.PromptTokens(), a.tokens)
}

// statusLeft is the status in metrics of a request with a client that left.
const statusLeft = 499

// sessionHeader is the header with the name of the session of a request, for policies that use sessions.
const sessionHeader = "x-session-id"

// headersOf returns the headers that are forwarded to the worker.
func headersOf(r *http.Request) map[string]string {
	headers := make(map[string]string)
	for _, name := range []string{"traceparent", "tracestate", "x-request-id", sessionHeader} {
		if v := r.Header.Get(name); v != "" {
			headers[name] = v
		}
	}
	return headers
}

// callModel calls the model and writes the answer.
func (a *reply) callModel(ctx context.Context, headers map[string]string) {
	a.answer = openai.NewAnswer(a.request, a.rc.ID(), a.model.Name, a.began, a.server.config.Now())
	pieces := a.answer.Generate(route.WithSession(ctx, headers[sessionHeader]), a.rc, a.model.Target, headers)
	if a.request.Stream {
		a.writeStream(pieces)
	} else {
		a.writeUnary(pieces)
	}
}

// isGone reports whether the client no longer waits for an answer.
func (a *reply) isGone() bool {
	return a.failed != nil || a.client.Err() != nil || a.rc.IsStopped() && !a.isEnding()
}

// isEnding reports whether the server is ending. The end of the server kills the request.
func (a *reply) isEnding() bool { return a.server.ending.Err() != nil }

// endOf returns the error of an answer. If the server is ending, the error reports that, instead of the cancellation
// that follows from it.
func (a *reply) endOf(p *openai.Piece, err error) error {
	if a.isEnding() && (err != nil || p.Reason == string(engine.FinishCancelled)) {
		return &openai.Error{Status: http.StatusServiceUnavailable, Message: "the frontend ends, and did not wait for the rest of the answer", RetryAfter: 1}
	}
	return err
}

// refuseRequest answers with an error, unless the client has left.
func (a *reply) refuseRequest(err error) {
	if a.isGone() {
		return
	}
	e := openai.ErrorOf(err)
	a.status = e.Status
	a.failed = a.server.writeError(a.w, e)
	a.whole = a.failed == nil
}

// notePiece counts the tokens of a piece, and measures the time to the first token.
func (a *reply) notePiece(p *openai.Piece) {
	if a.tokens == 0 && p.Tokens > 0 {
		a.server.config.Metrics.First(a.model.Name, time.Since(a.began))
	}
	a.tokens += p.Tokens
}

// writeUnary collects the answer and writes it in one response.
func (a *reply) writeUnary(pieces iter.Seq2[*openai.Piece, error]) {
	for p, err := range pieces {
		if err = a.endOf(p, err); err != nil {
			a.refuseRequest(err)
			return
		}
		a.notePiece(p)
		if err := a.keepPiece(p); err != nil {
			a.refuseRequest(err)
			return
		}
	}
	if a.isGone() {
		return
	}
	a.failed = a.server.NoteWrite(a.model.Name, a.rc.ID(), a.server.writeBytes(a.w, http.StatusOK, a.answer.AppendWhole(nil)))
	a.whole = a.failed == nil
}

// keepStep is the number of bytes that an answer acquires from server.answers at once.
const keepStep = 4 << 10

// keepPiece counts the bytes of a piece of a collected answer. keepPiece returns an error if the answer, or all
// answers together, exceed their limit.
func (a *reply) keepPiece(p *openai.Piece) error {
	a.size += p.Bytes()
	most := a.server.config.MaxAnswer
	if a.size > most {
		return openai.Refuse("stream", "the answer takes more than %d bytes until it is whole: stream must be true, or max_tokens, n or logprobs smaller", most)
	}
	for a.held < a.size {
		if !a.server.answers.TryAcquire(keepStep) {
			return &openai.Error{Status: http.StatusServiceUnavailable, RetryAfter: 1, Message: fmt.Sprintf("the answers in flight take %d bytes, which is the limit", a.server.config.MaxAnswers)}
		}
		a.held += keepStep
	}
	return nil
}

// NoteWrite returns the error of a write to a client. NoteWrite counts and logs a client that did not read its answer
// in time.
func (s *Server) NoteWrite(model, request string, err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	slow := fault.New(fault.ResponseTimeout, "slow reader: the client has read nothing for %v: %w", s.config.Write, err)
	s.config.SlowReader(model)
	s.config.Log.Warn("connection closed", "request", request, "reason", slow)
	return slow
}

// writeError writes the response for an error.
func (s *Server) writeError(w http.ResponseWriter, err error) error {
	e := openai.ErrorOf(err)
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	return s.writeBytes(w, e.Status, e.AppendJSON(nil))
}

// writeJSON encodes answer and writes it as the response.
func (s *Server) writeJSON(w http.ResponseWriter, status int, answer any) error {
	b, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return s.writeBytes(w, status, b)
}

// writeBytes writes a JSON document as the response.
func (s *Server) writeBytes(w http.ResponseWriter, status int, b []byte) error {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.config.Write))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(b, '\n')); err != nil {
		return err
	}
	return control.Flush()
}
