package engine

import (
	"context"
	"errors"
	"fmt"
	"github.com/goccy/go-json"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/fault"
)

// maxControl is the largest body of a control, in bytes.
const maxControl = 1 << 20

// openSystem opens a worker's HTTP server for those who run it, if the environment
// wants one: /metrics, /health, /live, and POST /engine/{control}.
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
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("system server", "reason", err)
		}
	})
	w.system = l.Addr().String()
	w.undo = append(w.undo, func() {
		server.Close()
		ended.Wait()
	})
	return nil
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

// The controls that change whether a worker is discoverable.
func sleepControls() []string { return []string{"sleep", "release_memory_occupation"} }
func wakeControls() []string  { return []string{"wake_up", "resume_memory_occupation"} }

// Controls lists what the engine can be told.
func (w *Worker) Controls() []string {
	if c, ok := w.engine.(ControlledEngine); ok {
		return c.Controls()
	}
	return nil
}

// Control passes a control on to the engine, one at a time. Before it goes to sleep the
// worker is taken out of discovery; after it has woken up it is put back.
func (w *Worker) Control(ctx context.Context, name string, body []byte) (answer []byte, err error) {
	c, ok := w.engine.(ControlledEngine)
	if !ok || !slices.Contains(c.Controls(), name) {
		return nil, fault.New(fault.BackendInvalidArgument, "control %q: want one of %q", name, w.Controls())
	}
	w.controls.Lock()
	defer w.controls.Unlock()
	if w.closing {
		return nil, fault.New(fault.BackendEngineShutdown, "control %q: the worker is shutting down", name)
	}
	if slices.Contains(sleepControls(), name) && w.registered {
		if err := w.serving.Unregister(ctx); err != nil {
			return nil, fault.New(fault.BackendDisconnected, "control %q: unregister: %w", name, err)
		}
		w.registered = false
	}
	err = w.callGuarded("control", func() (err error) {
		answer, err = c.Control(ctx, name, body)
		return err
	})
	if err != nil {
		return nil, fault.FromEngine(fmt.Errorf("control %q: %w", name, err))
	}
	if slices.Contains(wakeControls(), name) && !w.registered {
		if err := w.serving.Register(ctx); err != nil {
			return nil, fault.New(fault.BackendDisconnected, "control %q: register: %w", name, err)
		}
		w.registered = true
	}
	return answer, nil
}

// isDiscoverable reports whether the worker is registered.
func (w *Worker) isDiscoverable() bool {
	w.controls.Lock()
	defer w.controls.Unlock()
	return w.registered
}
