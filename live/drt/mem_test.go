package drt_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/fault"
)

// counter answers {"n":N} with the items 0 … N-1 and a terminal item.
func counter(ctx context.Context, rc cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
	var in struct {
		N     int
		Fail  string
		Panic bool
		Block bool
	}
	if err := json.Unmarshal(rq.Payload, &in); err != nil {
		return nil, fault.New(fault.BackendInvalidArgument, "%w", err)
	}
	if in.Fail == "setup" {
		return nil, fault.New(fault.BackendInvalidArgument, "refused by the handler")
	}
	return func(yield func(drt.Item, error) bool) {
		for i := range in.N {
			if !yield(drt.Item{Data: json.RawMessage(fmt.Sprint(i))}, nil) {
				return
			}
		}
		switch {
		case in.Fail == "late":
			yield(drt.Item{}, fault.New(fault.BackendEngineShutdown, "in the middle"))
			return
		case in.Panic:
			panic("on request")
		case in.Block:
			select {
			case <-rc.Stopped():
			case <-ctx.Done():
				return
			}
			yield(drt.Item{Data: json.RawMessage(`"cancelled"`), Last: true}, nil)
			return
		}
		yield(drt.Item{Data: json.RawMessage(`"done"`), Last: true}, nil)
	}, nil
}

// timeLimit is the timeout of a test.
const timeLimit = time.Minute

func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, release := context.WithTimeout(t.Context(), timeLimit)
	t.Cleanup(release)
	return ctx
}

// join connects a runtime that ends with the test.
func join(t *testing.T, config drt.Config) *drt.Runtime {
	t.Helper()
	if config.ResponseHost == "" {
		config.ResponseHost = "127.0.0.1"
	}
	rt, err := drt.Connect(limited(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, release := context.WithTimeout(context.Background(), timeLimit)
		defer release()
		if err := rt.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return rt
}

func endpoint(t *testing.T, rt *drt.Runtime, name string) *drt.Endpoint {
	t.Helper()
	e, err := rt.Endpoint("test", "backend", name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// serve serves handler at an endpoint and registers it.
func serve(t *testing.T, rt *drt.Runtime, name string, handler drt.Handler, o drt.ServeOptions) *drt.Serving {
	t.Helper()
	s, err := endpoint(t, rt, name).Serve(handler, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Register(limited(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

// client returns a client that sees want instances.
func client(t *testing.T, rt *drt.Runtime, name string, want int) *drt.Client {
	t.Helper()
	c, err := endpoint(t, rt, name).Client(limited(t), drt.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	await(t, c, want)
	return c
}

// await waits until c sees want instances.
func await(t *testing.T, c *drt.Client, want int) {
	t.Helper()
	ctx := limited(t)
	for {
		changed := c.Changed()
		if len(c.Instances()) == want {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%d instances, want %d", len(c.Instances()), want)
		}
	}
}

// collect reads a stream to its end. collect returns the data of the items, and the error of the stream.
func collect(s *drt.Stream) (string, error) {
	var all []string
	for item, err := range s.Items() {
		if err != nil {
			return strings.Join(all, " "), err
		}
		all = append(all, string(item.Data))
	}
	return strings.Join(all, " "), nil
}

// call makes a call and collects its stream.
func call(t *testing.T, c *drt.Client, payload string, route drt.Route) (string, error) {
	t.Helper()
	s, err := c.Generate(limited(t), cancel.New(""), &drt.Request{Payload: json.RawMessage(payload)}, route)
	if err != nil {
		return "", err
	}
	return collect(s)
}

// Requests are answered. Errors of each stage reach the caller with their type.
func TestCall(t *testing.T) {
	hub := drttest.Start(t)
	worker, caller := join(t, hub.Config()), join(t, hub.Config())
	serve(t, worker, "generate", counter, drt.ServeOptions{})
	c := client(t, caller, "generate", 1)
	for _, test := range []struct {
		payload, want string
		kind          fault.Type
	}{
		{`{"n":3}`, `0 1 2 "done"`, ""},
		{`{"n":0}`, `"done"`, ""},
		{`{"n":500}`, numbers(500) + ` "done"`, ""},
		{`{"fail":"setup"}`, "", fault.BackendInvalidArgument},
		{`{"n":2,"fail":"late"}`, "0 1", fault.BackendEngineShutdown},
		{`{"n":1,"panic":true}`, "0", fault.Unknown},
	} {
		t.Run(test.payload, func(t *testing.T) {
			c := c
			if test.kind == fault.BackendEngineShutdown {
				c = client(t, join(t, hub.Config()), "generate", 1) // the failed instance is avoided after this call
			}
			got, err := call(t, c, test.payload, drt.RoundRobin())
			if got != test.want {
				t.Errorf("items %q, want %q", got, test.want)
			}
			if test.kind == "" && err != nil || test.kind != "" && !errors.Is(err, test.kind) {
				t.Errorf("error %v, want %q", err, test.kind)
			}
		})
	}
}

func numbers(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(i)
	}
	return strings.Join(all, " ")
}

// After a stop, the remaining items of the worker arrive. After a kill, no item arrives.
func TestStopAndKill(t *testing.T) {
	hub := drttest.Start(t)
	worker, caller := join(t, hub.Config()), join(t, hub.Config())
	m := newCounts()
	s := serve(t, worker, "generate", counter, drt.ServeOptions{Metrics: m.Endpoint})
	c := client(t, caller, "generate", 1)
	for _, test := range []struct {
		name string
		do   func(rc cancel.Context, s *drt.Stream)
		want string
	}{
		{"stop", func(rc cancel.Context, _ *drt.Stream) { rc.Stop() }, `1 2 "cancelled"`},
		{"kill", func(rc cancel.Context, _ *drt.Stream) { rc.Kill() }, ``},
		{"close", func(_ cancel.Context, s *drt.Stream) { s.Close() }, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := m.cancelled()
			rc := cancel.New("")
			stream, err := c.Generate(limited(t), rc, &drt.Request{Payload: json.RawMessage(`{"n":3,"block":true}`)}, drt.RoundRobin())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for item, err := range stream.Items() {
				if err != nil {
					t.Fatal(err)
				}
				if string(item.Data) == "0" {
					test.do(rc, stream)
					continue
				}
				got = append(got, string(item.Data))
			}
			if all := strings.Join(got, " "); all != test.want && test.want != "" {
				t.Errorf("items %q, want %q", all, test.want)
			}
			if err := s.Wait(limited(t)); err != nil {
				t.Error(err)
			}
			if n := m.cancelled() - before; n != 1 {
				t.Errorf("%d cancellations counted, want 1", n)
			}
		})
	}
}

// one returns a handler that answers with one item: text as JSON if it is valid JSON, otherwise as a string.
func one(text func(context.Context, cancel.Context, *drt.Request) string) drt.Handler {
	return func(ctx context.Context, rc cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
		data := json.RawMessage(text(ctx, rc, rq))
		if !json.Valid(data) {
			data, _ = json.Marshal(string(data))
		}
		return func(yield func(drt.Item, error) bool) { yield(drt.Item{Data: data, Last: true}, nil) }, nil
	}
}

func isType(err error, t fault.Type) bool { return errors.Is(err, t) }

// pull returns functions that read a stream item by item.
func pull(s *drt.Stream) (next func() (drt.Item, error, bool), stop func()) {
	return iter.Pull2(s.Items())
}
