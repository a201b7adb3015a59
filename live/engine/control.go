package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/live/fault"
)

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
