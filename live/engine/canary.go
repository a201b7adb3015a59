package engine

import (
	"context"
	"errors"
	"fmt"
	"github.com/goccy/go-json"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/live/cancel"
)

// canary sends a request of its own to the engine when no other has been answered
// well for a while. Its worker is ready as long as it or others are answered.
type canary struct {
	worker  *Worker
	payload []byte // nil: there is none, and the worker is always ready
	after   time.Duration
	limit   time.Duration

	lastGood atomic.Int64 // Unix ns
	sick     atomic.Pointer[string]

	quit     context.Context // ends when nobody watches any more
	stop     context.CancelFunc
	watching sync.WaitGroup
}

// newCanary finds the payload: of the config, of the environment, of the engine.
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

// parsePayload reads a JSON object, or @ and the name of a file with one.
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
		return nil, fmt.Errorf("DYN_HEALTH_CHECK_PAYLOAD is %.60q, want a JSON object or @file", text)
	}
	return payload, nil
}

func (c *canary) noteGood() {
	c.lastGood.Store(time.Now().UnixNano())
	c.sick.Store(nil)
}

// sickReason returns why the worker is not ready; empty if it is.
func (c *canary) sickReason() string {
	if r := c.sick.Load(); r != nil {
		return *r
	}
	return ""
}

// startWatching begins to watch.
func (c *canary) startWatching() {
	if c.payload != nil {
		c.watching.Go(c.watchIdle)
	}
}

// stopWatching ends that; it may be called again, and before start.
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

// probeEngine sends the payload through the adapter, as any request.
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
		return // the adapter has told, or nobody watches
	}
	reason := err.Error()
	c.sick.Store(&reason)
	c.worker.log.Warn("health canary", "reason", err)
}

// sendProbe sends one probe. Only a terminal without an error is a good answer.
func (c *canary) sendProbe(ctx context.Context) error {
	rq, err := DecodeRequest(c.payload)
	if err != nil {
		return err
	}
	rc, release := cancel.FromGo(ctx, "")
	defer release()
	chunks, err := c.worker.adapter.Generate(ctx, rc, rq, nil)
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
