package vllmpaths

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// Sleep is the sleep mode of a server. The zero value is an awake server.
type Sleep struct {
	mu      sync.Mutex
	wake    chan struct{} // closed when the server wakes up; nil: awake
	parts   []string      // names of the sleeping parts
	running map[*Stay]bool
	idle    chan struct{} // closed when no request is running; nil: ServeSleep does not wait
}

// Stay is a request that is running on the engine.
type Stay struct {
	stop    func()
	aborted bool
}

// Enter waits until the server is awake, and returns a Stay for the request. stop aborts the request.
func (s *Sleep) Enter(ctx context.Context, stop func()) (*Stay, error) {
	for {
		s.mu.Lock()
		wake := s.wake
		if wake == nil {
			if s.running == nil {
				s.running = map[*Stay]bool{}
			}
			one := &Stay{stop: stop}
			s.running[one] = true
			s.mu.Unlock()
			return one, nil
		}
		s.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Leave ends a stay. Leave may be called more than once.
func (s *Sleep) Leave(one *Stay) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, one)
	if len(s.running) == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Aborted reports whether ServeSleep has aborted the request.
func (s *Sleep) Aborted(one *Stay) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return one.aborted
}

// ServeSleep serves POST /sleep. Later requests wait until the server wakes up. Mode abort ends the requests in
// flight, and mode wait waits for them.
func (s *Sleep) ServeSleep(w http.ResponseWriter, r *http.Request) {
	level, mode := 1, r.URL.Query().Get("mode")
	if text := r.URL.Query().Get("level"); text != "" {
		var err error
		if level, err = strconv.Atoi(text); err != nil || level < 0 || level > 2 {
			refuseValue(w, "level", "level is "+strconv.Quote(text)+", must be 0 to 2")
			return
		}
	}
	if mode == "" {
		mode = "abort"
	}
	if !slices.Contains([]string{"abort", "wait", "keep"}, mode) {
		refuseValue(w, "mode", "mode is "+strconv.Quote(mode)+", must be abort, wait or keep")
		return
	}
	if mode == "keep" {
		writeProblem(w, http.StatusNotImplemented, "NotImplementedError", "mode", "mode keep is not supported: requests in flight cannot be frozen")
		return
	}
	s.mu.Lock()
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	s.parts = []string{"scheduling"}
	if level > 0 {
		s.parts = append(s.parts, "weights", "kv_cache")
	}
	if mode == "abort" {
		for one := range s.running {
			one.aborted = true
			one.stop()
		}
	}
	if len(s.running) > 0 && s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.mu.Unlock()
	if idle != nil {
		select {
		case <-idle:
		case <-r.Context().Done():
			return
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
		Level  int    `json:"level"`
	}{"sleeping", level})
}

// ServeWakeUp serves POST /wake_up. With tags it wakes up only these parts. The server is awake when all parts are
// awake.
func (s *Sleep) ServeWakeUp(w http.ResponseWriter, r *http.Request) {
	tags := r.URL.Query()["tags"]
	s.mu.Lock()
	// Scheduling continues when the last part wakes up.
	s.parts = slices.DeleteFunc(s.parts, func(part string) bool { return tags == nil || slices.Contains(tags, part) })
	if len(s.parts) == 1 && s.parts[0] == "scheduling" {
		s.parts = nil
	}
	status := "sleeping"
	if len(s.parts) == 0 {
		status = "awake"
		if s.wake != nil {
			close(s.wake)
			s.wake = nil
		}
	}
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, struct {
		Status string   `json:"status"`
		Tags   []string `json:"tags"`
	}{status, tags})
}

// ServeIsSleeping serves GET /is_sleeping.
func (s *Sleep) ServeIsSleeping(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	asleep := s.wake != nil
	s.mu.Unlock()
	writeJSON(w, http.StatusOK, map[string]bool{"is_sleeping": asleep})
}
