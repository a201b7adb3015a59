package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
)

// startEngine starts the engine. Signals do not interrupt the start.
func (w *Worker) startEngine() error {
	began := time.Now()
	w.started = true
	err := w.callGuarded("engine", func() (err error) {
		w.engineCfg, err = w.engine.Start(context.Background(), w.rt.ID())
		return err
	})
	if err == nil && w.engineCfg.Model == "" {
		err = fault.New(fault.BackendInvalidArgument, "the engine's config has no Model")
	}
	if err != nil {
		return fault.FromEngine(fmt.Errorf("start: %w", err))
	}
	name := w.endpoint.Name()
	labels := telemetry.Name{Namespace: name.Namespace, Component: name.Component, Endpoint: name.Endpoint}
	if w.config.WorkerLabel {
		labels.WorkerID = w.rt.ID()
	}
	w.gauges = w.metrics.Worker(labels)
	w.gauges.Loaded(time.Since(began))
	w.requests = w.metrics.Endpoint(labels)
	w.card = newCard(&w.config, w.types, w.engineCfg)
	return nil
}

// makeDiscoverable connects metrics and KV events, and then registers the worker: its card, its endpoint and its
// instance.
func (w *Worker) makeDiscoverable(ctx context.Context) error {
	if err := w.bindPublishers(); err != nil {
		return fault.FromEngine(err)
	}
	if w.tracing = w.config.Tracing; w.tracing == nil {
		t, err := telemetry.Open(ctx, w.config.Getenv)
		if err != nil {
			return fault.New(fault.BackendInvalidArgument, "%w", err)
		}
		w.tracing, w.ownTraces = t, true
	}
	w.adapter = NewAdapter(w.engine, AdapterOptions{Mode: w.config.Mode, Tracing: w.tracing, Log: w.log})
	w.canary = w.newCanary()
	w.adapter.good = w.canary.noteGood
	if err := w.openSystem(); err != nil {
		return err
	}
	// A signal does not interrupt the registration, because a partial registration is hard to undo.
	return w.registerEndpoint(context.WithoutCancel(ctx))
}

func (w *Worker) registerEndpoint(ctx context.Context) error {
	card, err := json.Marshal(w.card)
	if w.config.ModelPath != "" {
		var missing string
		if card, missing, err = w.card.withFiles(w.config.ModelPath); missing != "" {
			w.log.Warn(missing)
		}
	}
	if err != nil {
		return fault.New(fault.BackendInvalidArgument, "model card: %w", err)
	}
	if err := w.endpoint.PutCard(ctx, card); err != nil {
		return fault.New(fault.BackendCannotConnect, "model card: %w", err)
	}
	handler := w.adapter.Handler(w.endpoint.Name(), w.rt.ID)
	options := drt.ServeOptions{Metrics: w.requests, Device: "cpu"}
	if e, ok := w.engine.(LiveEngine); ok {
		options.Alive = e.Alive
	}
	if w.serving, err = w.endpoint.Serve(handler, options); err != nil {
		return fault.New(fault.BackendUnknown, "serve: %w", err)
	}
	w.controls.Lock()
	defer w.controls.Unlock()
	if err := w.serving.Register(ctx); err != nil {
		return fault.New(fault.BackendCannotConnect, "register: %w", err)
	}
	w.registered = true
	return nil
}

// bindPublishers connects the engine's metrics and KV events.
func (w *Worker) bindPublishers() error {
	if m, ok := w.engine.(MetricsEngine); ok {
		b, err := m.SetupMetrics(MetricsContext{WorkerID: w.rt.ID(), Model: w.card.Name, Register: w.metrics.Register})
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		for _, rank := range b.DPRanks {
			if b.OnPublisherReady != nil {
				b.OnPublisherReady(rank, func(s RankSnapshot) { w.gauges.Rank(rank, s.ActiveBlocks, s.TotalBlocks, s.HitRate) })
			}
		}
	}
	events, ok := w.engine.(KVEventsEngine)
	if !ok || w.config.NoKVRouting || w.config.Publish == nil {
		return nil
	}
	sources, err := events.KVEventSources()
	if err != nil {
		return fmt.Errorf("KV events: %w", err)
	}
	for _, s := range sources {
		sink, undo, err := w.config.Publish(PublisherContext{w.rt, w.endpoint, w.rt.ID(), s, w.engineCfg})
		if err != nil {
			return fmt.Errorf("KV events of rank %d: %w", s.DPRank, err)
		}
		if undo != nil {
			w.undo = append(w.undo, undo)
		}
		if s.OnReady != nil && sink != nil {
			s.OnReady(sink)
		}
	}
	return nil
}

// awaitEnd waits for a signal, which is not an error, or for the loss of the runtime.
func (w *Worker) awaitEnd(signals context.Context) error {
	w.canary.startWatching()
	if w.config.Ready != nil {
		if err := w.config.Ready(Ready{w.rt.ID(), w.endpoint.Name(), w.system}); err != nil {
			return fault.New(fault.BackendUnknown, "ready, and the line with its address cannot be written: %w", err)
		}
	}
	w.log.Info("serving", "endpoint", w.endpoint.Name().String(), "instance", fmt.Sprintf("%x", w.rt.ID()), "model", w.card.Name)
	select {
	case <-signals.Done():
		return nil
	case <-w.rt.Done():
		return fault.New(fault.BackendDisconnected, "runtime: %w", w.rt.Err())
	}
}

// shutDown shuts the worker down: it leaves discovery, refuses new requests, and ends the engine.
func (w *Worker) shutDown() {
	w.startWatchdog(w.limits.shutdown + w.limits.grace)
	w.canary.stopWatching()
	ctx := context.Background()
	if w.serving != nil {
		w.leaveDiscovery()
		w.serving.Refuse()
	}
	w.drainRequests(ctx)
	w.cleanUp()
}

// awayGrace limits the grace of a worker while etcd does not answer, because its callers do not learn of its end.
const awayGrace = 3 * time.Second

// awayTick is the interval between two checks of etcd after awayGrace.
const awayTick = 50 * time.Millisecond

// leaveDiscovery unregisters the worker for good, and continues to serve during the grace period.
func (w *Worker) leaveDiscovery() {
	w.controls.Lock()
	w.closing, w.registered = true, false
	w.controls.Unlock()
	grace, away := time.After(w.limits.grace), time.After(min(w.limits.grace, awayGrace))
	select {
	case <-w.rt.Leave():
		w.log.Info("unregistered; still serving", "grace", w.limits.grace)
		w.keepServing(grace, away)
	case <-away:
		w.log.Warn("not unregistered: etcd does not answer")
	}
}

// keepServing waits until grace. After away it waits only while etcd answers.
func (w *Worker) keepServing(grace, away <-chan time.Time) {
	select {
	case <-grace:
		return
	case <-away:
	}
	for w.rt.StaleSince().IsZero() {
		select {
		case <-grace:
			return
		case <-time.After(awayTick):
		}
	}
}

// drainRequests waits for the requests in flight. First drainRequests drains the engine. Then drainRequests waits for
// the remaining requests, at most half of the remaining time.
func (w *Worker) drainRequests(ctx context.Context) {
	began := time.Now()
	ctx, release := context.WithDeadline(ctx, w.until)
	defer release()
	if err := w.callGuarded("drain", func() error { return w.engine.Drain(ctx) }); err != nil {
		w.log.Error("drain", "reason", err)
	}
	if w.serving != nil {
		ctx, release := context.WithTimeout(ctx, time.Until(w.until)/2)
		defer release()
		if err := w.serving.Wait(ctx); err != nil {
			w.log.Warn("drain", "reason", err)
		}
	}
	w.gauges.Drained(time.Since(began))
}

// cleanUp cleans up the engine once, if it was started.
func (w *Worker) cleanUp() {
	if !w.started || w.cleaned {
		return
	}
	w.cleaned = true
	w.startWatchdog(w.limits.shutdown)
	w.canary.stopWatching()
	began := time.Now()
	if err := w.callGuarded("cleanup", func() error { return w.engine.Cleanup(context.Background()) }); err != nil {
		w.log.Error("cleanup", "reason", err)
	}
	if w.gauges != nil {
		w.gauges.CleanedUp(time.Since(began))
	}
	for _, undo := range slices.Backward(w.undo) {
		undo()
	}
}

// callGuarded calls a method of the engine. A panic becomes an error.
func (w *Worker) callGuarded(what string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v", what, p)
		}
	}()
	return call()
}

// startWatchdog ends the process if its shutdown takes longer than limit. startWatchdog has no effect if a limit was
// set before.
func (w *Worker) startWatchdog(limit time.Duration) {
	if w.watchdog != nil {
		return
	}
	w.until = time.Now().Add(limit)
	w.watchdog = time.AfterFunc(limit, func() {
		w.log.Error("shutdown takes too long", "limit", limit, "exit", ExitTimeout)
		w.config.Exit(ExitTimeout)
	})
}
