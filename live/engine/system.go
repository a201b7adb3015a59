package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
)

// maxControl is the maximum size of the body of a control, in bytes.
const maxControl = 1 << 20

// bodyTime is the time limit for a client to send the body of a control.
const bodyTime = 5 * time.Second

// systemListener is the label of the system server in the metric of refused connections.
const systemListener = "system"

// openSystem opens a worker's HTTP server for operators, if the environment enables it. The server serves /metrics,
// /health, /live, and POST /engine/{control}.
func (w *Worker) openSystem() error {
	if w.limits.system < 0 {
		return nil
	}
	links := w.rt.Links()
	l, ask, err := links.HTTP(systemListener, net.JoinHostPort(w.limits.host, strconv.Itoa(w.limits.system)), "/live", "/health")
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
	server := &http.Server{Handler: ask(mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, ErrorLog: log.New(links.ErrorLog(systemListener), "", 0)}
	strict := listen.StrictFraming(server, l, http.DefaultMaxHeaderBytes)
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := server.Serve(strict); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("system server", "reason", err)
		}
	})
	w.system = listen.Dialable(l.Addr())
	w.undo = append(w.undo, func() {
		server.Close()
		ended.Wait()
	})
	return nil
}

// serveHealth answers 200 while the worker is registered and its canary succeeds, otherwise 503.
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

// serveControl passes a control to the engine.
func (w *Worker) serveControl(rw http.ResponseWriter, rq *http.Request) {
	deadline := http.NewResponseController(rw)
	_ = deadline.SetReadDeadline(time.Now().Add(bodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(rw, rq.Body, maxControl))
	if err != nil {
		code := http.StatusBadRequest
		if errors.Is(err, os.ErrDeadlineExceeded) {
			code, err = http.StatusRequestTimeout, fmt.Errorf("body: not complete after %v", bodyTime)
		}
		rw.Header().Set("Connection", "close")
		writeJSON(rw, code, map[string]any{"error": err.Error()})
		return
	}
	_ = deadline.SetReadDeadline(time.Time{}) // the deadline is for the body only
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
	_ = json.NewEncoder(rw).Encode(body) // an error means that the client has left
}

// Names of controls that unregister or register a worker.
func sleepControls() []string { return []string{"sleep", "release_memory_occupation"} }
func wakeControls() []string  { return []string{"wake_up", "resume_memory_occupation"} }

// Control passes a control to the engine, one at a time. Before a sleep control, the worker is unregistered. After a
// wake control, the worker is registered again.
func (w *Worker) Control(ctx context.Context, name string, body []byte) (answer []byte, err error) {
	var names []string
	c, ok := w.engine.(ControlledEngine)
	if ok {
		names = c.Controls()
	}
	if !slices.Contains(names, name) {
		return nil, fault.New(fault.BackendInvalidArgument, "control %q: must be one of %q", name, names)
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
		return nil, fault.FromEngine(excerpt.Errorf("control %q: %w", name, err))
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

// canary sends a probe to the engine when no other request has succeeded for a while. The worker is ready while
// probes or other requests succeed.
type canary struct {
	worker  *Worker
	payload []byte // nil: no probes, and the worker is always ready
	after   time.Duration
	limit   time.Duration

	lastGood atomic.Int64 // time of the last good probe in Unix ns
	sick     atomic.Pointer[string]

	quit     context.Context // ends when the canary stops
	stop     context.CancelFunc
	watching sync.WaitGroup
}

// newCanary returns a canary with the payload from the config, the environment or the engine, in this order.
func (w *Worker) newCanary() *canary {
	c := &canary{worker: w, after: w.config.CanaryAfter, limit: w.config.CanaryLimit}
	c.quit, c.stop = context.WithCancel(context.Background())
	c.noteGood()
	payload, err := w.healthPayload()
	switch {
	case err != nil:
		w.log.Warn("no health canary", "reason", err)
	case payload != nil:
		payload["_HEALTH_CHECK"] = true
		if c.payload, err = json.Marshal(payload); err != nil {
			w.log.Warn("no health canary", "reason", err)
		}
	}
	return c
}

func (w *Worker) healthPayload() (map[string]any, error) {
	if w.config.HealthCheck != nil {
		return maps.Clone(w.config.HealthCheck), nil
	}
	if text := w.config.Getenv("DYN_HEALTH_CHECK_PAYLOAD"); text != "" {
		return parsePayload(text)
	}
	if h, ok := w.engine.(HealthEngine); ok {
		payload, err := h.HealthCheckPayload()
		return maps.Clone(payload), err
	}
	return nil, nil
}

// parsePayload parses a JSON object, or reads it from a file if text is @ and a file name.
func parsePayload(text string) (map[string]any, error) {
	if name, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("DYN_HEALTH_CHECK_PAYLOAD: %w", err)
		}
		text = string(b)
	}
	var payload map[string]any
	if err := json.Unmarshal([]byte(text), &payload); err != nil || payload == nil {
		return nil, fmt.Errorf("DYN_HEALTH_CHECK_PAYLOAD is %.60q, must be a JSON object or @file", text)
	}
	return payload, nil
}

func (c *canary) noteGood() {
	c.lastGood.Store(time.Now().UnixNano())
	c.sick.Store(nil)
}

// sickReason returns why the worker is not ready, or "".
func (c *canary) sickReason() string {
	if r := c.sick.Load(); r != nil {
		return *r
	}
	return ""
}

// startWatching starts to send probes.
func (c *canary) startWatching() {
	if c.payload != nil {
		c.watching.Go(c.watchIdle)
	}
}

// stopWatching stops the probes. stopWatching may be called several times, and before startWatching.
func (c *canary) stopWatching() {
	if c != nil {
		c.stop()
		c.watching.Wait()
	}
}

func (c *canary) watchIdle() {
	for {
		idle := time.Since(time.Unix(0, c.lastGood.Load()))
		wait := c.after - idle
		if wait <= 0 {
			c.probeEngine()
			if wait = c.after; c.sickReason() == "" {
				continue
			}
		}
		select {
		case <-time.After(wait):
		case <-c.quit.Done():
			return
		}
	}
}

// probeEngine sends a probe through the adapter and records a failure.
func (c *canary) probeEngine() {
	ctx, release := context.WithTimeoutCause(c.quit, c.limit, fmt.Errorf("no answer within %v", c.limit))
	defer release()
	result := make(chan error, 1)
	go func() { result <- c.sendProbe(ctx) }()
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil || c.quit.Err() != nil {
		return // the adapter has recorded the success, or the canary has stopped
	}
	reason := err.Error()
	c.sick.Store(&reason)
	c.worker.log.Warn("health canary", "reason", err)
}

// sendProbe sends one probe.
func (c *canary) sendProbe(ctx context.Context) error {
	rq, err := DecodeRequest(c.payload)
	if err != nil {
		return err
	}
	rc, release := cancel.FromGo(ctx, "")
	defer release()
	return Probe(ctx, rc, c.worker.adapter, rq)
}

// Probe sends a request. Probe returns an error unless the answer ends with a terminal that is not an error.
func Probe(ctx context.Context, rc cancel.Context, target Target, rq *Request) error {
	chunks, err := target.Generate(ctx, rc, rq, nil)
	if err != nil {
		return err
	}
	good := false
	for chunk, err := range chunks {
		if err != nil {
			return err
		}
		if err := chunk.Err(); err != nil {
			return err
		}
		good = chunk.FinishReason != "" && !rc.IsStopped()
	}
	if !good {
		return errors.Join(errors.New("the stream ended without a terminal"), context.Cause(ctx))
	}
	return nil
}
