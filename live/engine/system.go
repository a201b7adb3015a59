package engine

import (
	"errors"
	"github.com/goccy/go-json"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/replay-llm/replay/live/fault"
)

// maxControl is the largest body of a control, in bytes.
const maxControl = 1 << 20

// system is a worker's HTTP server for those who run it: /metrics, /health, /live,
// and POST /engine/{control}.
type system struct {
	listener net.Listener
	server   *http.Server
	ended    chan struct{}
}

// openSystem opens the server if the environment wants one.
func (w *Worker) openSystem() error {
	if w.limits.system < 0 {
		return nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(w.limits.system)))
	if err != nil {
		return fault.New(fault.BackendCannotConnect, "DYN_SYSTEM_PORT: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", w.metrics.Handler())
	mux.HandleFunc("GET /live", func(rw http.ResponseWriter, _ *http.Request) {
		writeJSON(rw, http.StatusOK, map[string]any{"status": "live"})
	})
	mux.HandleFunc("GET /health", w.serveHealth)
	mux.HandleFunc("POST /engine/{control}", w.serveControl)
	s := &system{l, &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, make(chan struct{})}
	go func() {
		defer close(s.ended)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("system server", "reason", err)
		}
	}()
	w.system = s
	return nil
}

func (s *system) listenAddress() string {
	if s == nil {
		return ""
	}
	return s.listener.Addr().String()
}

func (s *system) closeServer() {
	if s == nil {
		return
	}
	s.server.Close()
	<-s.ended
}

// serveHealth answers 200 while the worker is discoverable and its canary is well, else 503.
func (w *Worker) serveHealth(rw http.ResponseWriter, _ *http.Request) {
	body := map[string]any{"status": "ready", "endpoint": w.endpoint.Name().String(), "instance_id": w.rt.ID()}
	code := http.StatusOK
	switch reason := w.canary.sickReason(); {
	case reason != "":
		body["status"], body["reason"], code = "notready", reason, http.StatusServiceUnavailable
	case !w.isDiscoverable():
		body["status"], body["reason"], code = "notready", "not registered", http.StatusServiceUnavailable
	}
	writeJSON(rw, code, body)
}

// serveControl passes a control on to the engine.
func (w *Worker) serveControl(rw http.ResponseWriter, rq *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, rq.Body, maxControl))
	if err != nil {
		writeJSON(rw, http.StatusBadRequest, map[string]any{"error": err.Error()})
		return
	}
	answer, err := w.Control(rq.Context(), rq.PathValue("control"), body)
	switch {
	case errors.Is(err, fault.BackendInvalidArgument):
		writeJSON(rw, http.StatusNotFound, map[string]any{"error": err.Error()})
	case err != nil:
		writeJSON(rw, http.StatusInternalServerError, map[string]any{"error": err.Error()})
	case json.Valid(answer):
		writeJSON(rw, http.StatusOK, json.RawMessage(answer))
	default:
		writeJSON(rw, http.StatusOK, map[string]any{"status": "ok"})
	}
}

func writeJSON(rw http.ResponseWriter, code int, body any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_ = json.NewEncoder(rw).Encode(body) // the client is gone otherwise
}
