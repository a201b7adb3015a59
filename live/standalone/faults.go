package standalone

import (
	"context"
	"crypto/subtle"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/httpfault"
	"github.com/replay-llm/replay/internal/vllmpaths"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/openai"
)

// openFaults prepares the fault injection of the server.
func (s *Server) openFaults() {
	o := &s.Options
	s.faults = httpfault.Injector{Proven: o.Proven, Count: s.Metrics.Faults(), Fail: writeFault, Crash: func() {
		s.crashed.Store(true)
		_ = s.Front.Close() // breaks its connections
	}}
	s.faults.Set(o.Faults)
	if k := o.Engine.KVSockets; k != nil {
		own := *k
		own.Fault, o.Engine.KVSockets = s.faults.KV, &own
	}
}

// writeFault writes an error response.
func writeFault(w http.ResponseWriter, status, retry int, message string) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retry))
	}
	WriteBytes(w, status, (&openai.Error{Status: status, Message: message}).AppendJSON(nil))
}

// requireKey requires an API key for paths below /v1, if any keys are configured.
func (s *Server) requireKey(next http.Handler) http.Handler {
	if len(s.Options.APIKeys) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, known := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), 0
		for _, key := range s.Options.APIKeys {
			known |= subtle.ConstantTimeCompare([]byte(given), []byte(key))
		}
		if known == 0 && (strings.HasPrefix(r.URL.Path, "/v1") || r.URL.Path == "/generate") {
			WriteJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limited applies the queue limits of the faults to requests. limited delays requests while the server sleeps.
type limited struct {
	engine.Target
	queue *httpfault.Queue[*engine.Group]
	sleep *vllmpaths.Sleep
}

// Generate sends the request to the engine, or returns the error of a queue limit.
func (l limited) Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
	group := &engine.Group{Size: 1}
	if rq.Local != nil && rq.Local.Group != nil {
		group = rq.Local.Group
	}
	waiting := len(rq.TokenIDs)
	if reason := l.queue.Enter(group, group.Size, waiting); reason != "" {
		f := l.queue.Injector.Faults()
		return nil, &openai.Error{Status: f.QueueStatus, RetryAfter: f.RetryAfterS, Message: "the queue of the engine is full (" + reason + "): retry later, or ask another instance"}
	}
	child := cancel.New(rc.ID()) // an abort by the server must not look like a client that disconnected
	rc.LinkChild(child)
	awake, end := cancel.WithStop(ctx, child)
	stay, err := l.sleep.Enter(awake, child.Stop)
	end()
	var chunks iter.Seq2[*engine.Chunk, error]
	if err == nil {
		chunks, err = l.Target.Generate(ctx, child, rq, headers)
	}
	leave := func() {
		rc.Unlink(child)
		l.sleep.Leave(stay)
		l.queue.Leave(1, waiting)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return func(yield func(*engine.Chunk, error) bool) {
		defer leave()
		for c, err := range chunks {
			if errors.Is(err, mocker.ErrQueueFull) {
				l.queue.Rejected("max_queued_requests")
				err = &openai.Error{Status: http.StatusServiceUnavailable, Type: "503", Flat: true, Message: mocker.ErrQueueFull.Error()}
			}
			if err == nil && c.FinishReason == engine.FinishCancelled && l.sleep.Aborted(stay) {
				c.FinishReason = "abort"
			}
			if waiting > 0 {
				l.queue.Leave(0, waiting)
				waiting = 0
			}
			if !yield(c, err) {
				return
			}
		}
	}, nil
}
