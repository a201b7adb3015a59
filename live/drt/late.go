package drt

import (
	"context"
	"time"

	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
)

// busyAfter is the duration of a connection to this process itself above which the process counts as busy.
const busyAfter = time.Second

// awaitLate is called when the worker of a call has not called home in time. The caller itself may be the cause: a
// busy or paused process does not read connections that arrived long ago. Therefore the caller connects to itself.
// Workers that connected earlier arrive before or with that connection. Workers that connect meanwhile are accepted,
// too. If the connection to itself takes long, the error blames this process, not the worker.
func (c *callers) awaitLate(ctx context.Context, rc cancel.Context, e *expected) (arrival, error) {
	limited, release := context.WithTimeout(ctx, max(c.config.CallHome, 2*busyAfter))
	defer release()
	began, done := time.Now(), make(chan error, 1)
	go func() { done <- c.callItself(limited) }()
	var err error
	select {
	case a := <-e.arrival:
		return a, a.err
	case err = <-done:
	case <-rc.Stopped():
		return arrival{}, fault.New(fault.Cancelled, "%v: cancelled before instance %s called home", e.place.name, hexID(e.place.id))
	}
	took := time.Since(began)
	grace := time.NewTimer(took + 10*time.Millisecond) // other connections may be read at the same time
	defer grace.Stop()
	select {
	case a := <-e.arrival:
		return a, a.err
	case <-grace.C:
	}
	if ctx.Err() != nil {
		return arrival{}, fault.New(fault.Cancelled, "%v: given up before instance %s called home: %w", e.place.name, hexID(e.place.id), context.Cause(ctx))
	}
	if took >= busyAfter {
		return arrival{}, fault.New(fault.ResourceExhausted, "%v: instance %s has not called home in %v, and this process is busy: it took %v to answer itself (%v)",
			e.place.name, hexID(e.place.id), c.config.CallHome, took.Round(time.Millisecond), err)
	}
	return arrival{}, fault.New(fault.ConnectionTimeout, "%v: instance %s has not called home in %v", e.place.name, hexID(e.place.id), c.config.CallHome)
}

// callItself connects to this process like a worker. callItself returns when the connection has been accepted.
func (c *callers) callItself(ctx context.Context) error {
	e := &expected{subject: cancel.NewID(), arrival: make(chan arrival, 1)}
	c.mu.Lock()
	address, closed := c.address, c.closed
	if !closed {
		c.waiting[e.subject] = e
	}
	c.mu.Unlock()
	if closed {
		return fault.New(fault.Disconnected, "the runtime is closed")
	}
	defer c.withdrawCall(e)
	conn, err := c.config.Links.Dial(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write(wire.NewHello(e.subject).Append(nil)); err != nil {
		return err
	}
	select {
	case a := <-e.arrival:
		e.arrival <- a // withdrawCall receives the arrival and closes the connection
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
