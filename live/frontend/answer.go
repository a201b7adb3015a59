package frontend

import (
	"context"
	"errors"
	"fmt"
	"github.com/goccy/go-json"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/telemetry"
)

// parting is how long a request may take to end in good order after its client
// has left; then it is killed.
const parting = 5 * time.Second

// answerHandler returns the handler of a flavour.
func (s *Server) answerHandler(f *flavour) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, release, err := s.readBody(w, r)
		if err != nil {
			s.writeError(w, err)
			return
		}
		defer release()
		q, err := f.parse(body)
		if err != nil {
			s.writeError(w, err)
			return
		}
		m, ok := s.config.Models.Find(q.model)
		if !ok {
			s.writeError(w, &refusal{http.StatusNotFound, "model_not_found", fmt.Sprintf("model is %.100q, which nobody serves", q.model)})
			return
		}
		if m.ContextLength > 0 && q.promptTokens() > m.ContextLength {
			s.writeError(w, invalidError("prompt has %d tokens, want at most %d, the context length of %s", q.promptTokens(), m.ContextLength, m.Name))
			return
		}
		s.answerRequest(w, r, &reply{server: s, flavour: f, question: q, model: m, w: w})
	}
}

// reply is one answer in the making.
type reply struct {
	server   *Server
	flavour  *flavour
	question *question
	model    route.Served
	w        http.ResponseWriter

	rc      cancel.Context
	began   time.Time
	created int64 // the same, as clients are told
	buf     []byte
	speaker speaker
	tokens  int
	usage   *engine.Usage
	status  int
	whole   bool // the client has all of it
	failed  error
}

// answerRequest asks the model and writes what comes. A client that leaves stops the
// request.
func (s *Server) answerRequest(w http.ResponseWriter, r *http.Request, a *reply) {
	id := r.Header.Get("X-Request-Id")
	if !cancel.IsID(id) {
		id = ""
	}
	a.rc = cancel.New(id)
	defer s.beginRequest(a.rc)()
	w.Header().Set("X-Request-Id", a.rc.ID())
	a.began, a.status = time.Now(), http.StatusOK
	a.created = s.config.Now().Unix()
	name, kind, m := a.flavour.name, telemetry.Unary, s.config.Metrics
	if a.question.stream {
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
	a.askModel(cancel.With(ctx, a.rc), headers)
	close(over)
	// What the client does after it has all is no matter.
	left := !stay() || r.Context().Err() != nil || a.failed != nil
	if left && !a.whole && s.ending.Err() == nil {
		a.status = statusLeft
		m.Cancelled(a.model.Name, name, kind)
	}
	m.Tokens(a.model.Name, a.question.promptTokens(), a.tokens)
}

// statusLeft is the status that metrics have of a request whose client left.
const statusLeft = 499

// sessionHeader names the session of a request, for policies that look at it.
const sessionHeader = "x-session-id"

// headersOf returns the headers that go on to the worker.
func headersOf(r *http.Request) map[string]string {
	headers := make(map[string]string)
	for _, name := range []string{"traceparent", "tracestate", "x-request-id", sessionHeader} {
		if v := r.Header.Get(name); v != "" {
			headers[name] = v
		}
	}
	return headers
}

// askModel gets the answer and writes it.
func (a *reply) askModel(ctx context.Context, headers map[string]string) {
	rq := a.question.engineRequest()
	at := float64(a.began.UnixNano()) / 1e6
	rq.RequestTimestampMS = &at
	chunks, err := a.model.Target.Generate(route.WithSession(ctx, headers[sessionHeader]), a.rc, rq, headers)
	switch {
	case err != nil:
		a.refuseRequest(err)
	case a.question.stream:
		a.writeStream(chunks)
	default:
		a.writeUnary(chunks)
	}
}

// isGone reports whether nobody is there to be answered.
func (a *reply) isGone() bool { return a.failed != nil || a.rc.IsStopped() }

// refuseRequest answers with an error, unless there is nobody to get one.
func (a *reply) refuseRequest(err error) {
	if a.rc.IsStopped() {
		return
	}
	a.status = statusOf(err)
	a.failed = a.server.writeError(a.w, err)
	a.whole = a.failed == nil
}

// noteChunk notes a chunk and returns its text, and the error that it is.
func (a *reply) noteChunk(c *engine.Chunk, err error) (text string, _ error) {
	if err != nil {
		return "", err
	}
	if a.tokens == 0 && len(c.TokenIDs) > 0 {
		a.server.config.Metrics.First(a.model.Name, time.Since(a.began))
	}
	a.tokens += len(c.TokenIDs)
	if c.CompletionUsage != nil {
		a.usage = c.CompletionUsage
	}
	if c.Text != nil {
		text = *c.Text
	} else {
		text = a.speaker.addTokens(c.TokenIDs)
	}
	if c.FinishReason == "" {
		return text, nil
	}
	if err := c.Err(); err != nil {
		return "", err
	}
	if a.usage == nil {
		a.usage = engine.NewUsage(uint32(a.question.promptTokens()), uint32(a.tokens))
	}
	return text + a.speaker.flushRest(), nil
}

// errIncomplete is the error of an answer that just ends.
var errIncomplete = fault.New(fault.BackendStreamIncomplete, "the answer ended without a last chunk")

// writeUnary writes the whole answer once it is there.
func (a *reply) writeUnary(chunks iter.Seq2[*engine.Chunk, error]) {
	var all strings.Builder
	if a.question.echo {
		all.WriteString(a.question.echoText())
	}
	for c, err := range chunks {
		text, err := a.noteChunk(c, err)
		if err != nil {
			a.refuseRequest(err)
			return
		}
		all.WriteString(text)
		if c.FinishReason != "" {
			if a.rc.IsStopped() {
				return // nobody is there
			}
			a.failed = a.server.writeJSON(a.w, http.StatusOK, a.newObject(a.flavour.whole, a.usage, a.flavour.answered(all.String(), finishWord(c.FinishReason))))
			a.whole = a.failed == nil
			return
		}
	}
	a.refuseRequest(errIncomplete)
}

// echoText returns the prompt as text.
func (q *question) echoText() string {
	if q.tokens == nil {
		return q.text
	}
	var s speaker
	return s.addTokens(q.tokens) + s.flushRest()
}

// finishWord returns why an answer ended, in the words of clients.
func finishWord(f engine.FinishReason) string {
	if f == engine.FinishEOS {
		return string(engine.FinishStop)
	}
	return string(f)
}

// statusOf returns the status of an answer that is an error.
func statusOf(err error) int {
	var r *refusal
	is := func(types ...fault.Type) bool { return fault.MatchChain(err, types, nil) }
	switch {
	case errors.As(err, &r):
		return r.status
	case errors.Is(err, drt.ErrNoInstances), errors.Is(err, errBusy), is(fault.ResourceExhausted):
		return http.StatusServiceUnavailable
	case is(fault.InvalidArgument, fault.BackendInvalidArgument):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// errorBody is an error as clients get it.
type errorBody struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    int    `json:"code"`
}

func bodyOf(err error) map[string]errorBody {
	status := statusOf(err)
	kind := "internal_error"
	var r *refusal
	switch {
	case errors.As(err, &r):
		kind = r.kind
	case status == http.StatusServiceUnavailable:
		kind = "service_unavailable"
	case status == http.StatusBadRequest:
		kind = "invalid_request_error"
	}
	return map[string]errorBody{"error": {err.Error(), kind, status}}
}

// writeError answers with an error.
func (s *Server) writeError(w http.ResponseWriter, err error) error {
	if errors.Is(err, errBusy) || fault.MatchChain(err, []fault.Type{fault.ResourceExhausted}, nil) {
		w.Header().Set("Retry-After", "1")
	}
	return s.writeJSON(w, statusOf(err), bodyOf(err))
}

// writeJSON answers with JSON.
func (s *Server) writeJSON(w http.ResponseWriter, status int, answer any) error {
	b, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(s.config.Write))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(b, '\n')); err != nil {
		return err
	}
	return control.Flush()
}
