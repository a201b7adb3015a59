// Package drttest connects tests to a distributed runtime.
package drttest

import (
	"context"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/drt"
)

// patience is far more than anything here takes.
const patience = 2 * time.Minute

// Within returns a context for what a test waits for. It ends only when something
// hangs.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, release := context.WithTimeout(context.Background(), patience)
	t.Cleanup(release)
	return ctx
}

// Eventually waits until is reports true.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for ctx := Within(t); !is(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("never: %s", what)
		}
	}
}

// Config returns the configuration of a runtime on hub.
func Config(hub *drt.Hub) drt.Config {
	return drt.Config{Discovery: drt.Mem, Hub: hub, ResponseHost: "127.0.0.1"}
}

// Connect returns a runtime that is closed at the end of the test.
func Connect(t testing.TB, c drt.Config) *drt.Runtime {
	t.Helper()
	rt, err := drt.Connect(Within(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(Within(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return rt
}

// Client returns a client of an endpoint, named as namespace.component.endpoint,
// that somebody serves.
func Client(t testing.TB, rt *drt.Runtime, endpoint string) *drt.Client {
	t.Helper()
	e, err := rt.ParseEndpoint(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Client(Within(t), drt.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitForInstances(Within(t)); err != nil {
		t.Fatal(err)
	}
	return c
}
