// Package cancel ends single requests.
//
// A Context belongs to a request and has two signals. Stop asks the request to finish early and return its result so
// far. Kill asks the request to end at once, usually because the client has disconnected. A signal also reaches the
// children, which are the calls on behalf of the request. A signal is never withdrawn.
//
// Callers send both signals explicitly. Go's context.Context is separate: it ends when the consumer of a result has
// left. WithGo, WithStop and FromGo convert between the two.
package cancel

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Context carries the stop signals of a request. Context is safe for concurrent use. Repeated calls of a method have
// no further effect.
//
// The state of a Context only increases: live, stopped, killed. Killed includes stopped.
type Context interface {
	// ID returns the request's id. Calls on behalf of a request have the same id.
	ID() string
	// IsStopped reports whether the request was stopped or killed.
	IsStopped() bool
	// IsKilled reports whether the request was killed.
	IsKilled() bool
	// Stopped returns a channel that is closed when the request is stopped or killed.
	Stopped() <-chan struct{}
	// Killed returns a channel that is closed when the request is killed.
	Killed() <-chan struct{}
	// Stop asks the request to finish early. The items in its stream stay valid, and a last item reports the
	// cancellation.
	Stop()
	// Kill asks the request to end at once, without a last item.
	Kill()
	// LinkChild passes all stops and kills of this context on to child, including those before the call.
	LinkChild(child Context)
	// Unlink removes a child. A long-lived context must unlink each short-lived child at its end, so that the list of
	// children does not grow.
	Unlink(child Context)
}

// States of a context.
const (
	live int32 = iota
	stopped
	killed
)

// node implements Context.
type node struct {
	id string

	// target is the highest requested state. The call that raises target passes the state to the children. A call
	// that finds it already raised returns, which ends a cycle of links.
	target atomic.Int32
	// state is the visible state. state equals target after all children have been called.
	state atomic.Int32

	mu       sync.Mutex // guards the fields below; never held while another context is called
	stop     chan struct{}
	kill     chan struct{}
	children []Context // the calls on behalf of the request, in the order of their links
}

// New returns a live context for the request with this id. If id is "", New uses a random UUID.
func New(id string) Context {
	if id == "" {
		id = NewID()
	}
	return &node{id: id, stop: make(chan struct{}), kill: make(chan struct{})}
}

// NewID returns a random UUID.
func NewID() string {
	return uuid.NewString()
}

// IsID reports whether id is a UUID in its usual format of 36 characters.
func IsID(id string) bool {
	return len(id) == 36 && uuid.Validate(id) == nil
}

func (n *node) ID() string               { return n.id }
func (n *node) IsStopped() bool          { return n.state.Load() >= stopped }
func (n *node) IsKilled() bool           { return n.state.Load() >= killed }
func (n *node) Stopped() <-chan struct{} { return n.stop }
func (n *node) Killed() <-chan struct{}  { return n.kill }
func (n *node) Stop()                    { n.raiseTo(stopped) }
func (n *node) Kill()                    { n.raiseTo(killed) }

// raiseTo raises the state of n and its descendants. raiseTo first sets target, then calls the children in the order
// of their links, then shows the state.
func (n *node) raiseTo(to int32) {
	for {
		at := n.target.Load()
		if at >= to {
			return
		}
		if n.target.CompareAndSwap(at, to) {
			break
		}
	}
	for _, child := range n.copyChildren() {
		raiseContext(child, to)
	}
	n.showState(to)
}

// raiseContext requests a state from child.
func raiseContext(child Context, state int32) {
	switch state {
	case stopped:
		child.Stop()
	case killed:
		child.Kill()
	}
}

// copyChildren returns a copy of the list of children, so that they can be called without the lock.
func (n *node) copyChildren() []Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.children)
}

// showState makes a state visible. If a kill has already shown a higher state, a slower stop has no effect.
func (n *node) showState(state int32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.state.Load()
	if before >= state {
		return
	}
	n.state.Store(state)
	if before < stopped {
		close(n.stop)
	}
	if state == killed {
		close(n.kill)
	}
}

func (n *node) LinkChild(child Context) {
	if child == nil {
		return
	}
	n.mu.Lock()
	if !slices.Contains(n.children, child) {
		n.children = append(n.children, child)
	}
	n.mu.Unlock()
	// The call that raised target before the child was added may have copied the list without it.
	raiseContext(child, n.target.Load())
}

func (n *node) Unlink(child Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.children, child); i >= 0 {
		n.children = slices.Delete(n.children, i, i+1)
	}
}

// WithGo returns a context.Context that ends when c is killed, and that contains c (From). WithGo needs no goroutine
// and no release.
func WithGo(c Context) context.Context {
	return &goContext{c, c.Killed()}
}

// WithStop returns a copy of ctx that also ends when c is stopped, and a function that releases it.
func WithStop(ctx context.Context, c Context) (context.Context, func()) {
	ctx, end := context.WithCancel(ctx)
	forget := context.AfterFunc(&goContext{c, c.Stopped()}, end)
	return ctx, func() { forget(); end() }
}

// StopThenKill stops c, and kills it after limit unless over is closed before.
func StopThenKill(c Context, over <-chan struct{}, limit time.Duration) {
	c.Stop()
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-over:
	case <-t.C:
		c.Kill()
	}
}

// goContext is a context.Context for a Context.
type goContext struct {
	c    Context
	done <-chan struct{}
}

// key is the key of the Context in a context.Context.
type key struct{}

func (g *goContext) Deadline() (time.Time, bool) { return time.Time{}, false }
func (g *goContext) Done() <-chan struct{}       { return g.done }

func (g *goContext) Err() error {
	select {
	case <-g.done:
		return context.Canceled
	default:
		return nil
	}
}

func (g *goContext) Value(k any) any {
	if _, ours := k.(key); ours {
		return g.c
	}
	return nil
}

// FromGo returns a Context with this id that is stopped when ctx ends. If ctx contains a Context (From), the new
// Context is its child. Call the function at the end of the request to unlink it from both.
func FromGo(ctx context.Context, id string) (Context, func()) {
	c := New(id)
	parent, linked := From(ctx)
	if linked {
		parent.LinkChild(c)
	}
	forget := context.AfterFunc(ctx, c.Stop)
	return c, func() {
		forget()
		if linked {
			parent.Unlink(c)
		}
	}
}

// With returns a copy of ctx that contains c as the Context of its request.
func With(ctx context.Context, c Context) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// From returns the Context of the request that ctx serves, if it contains one. A handler passes its ctx to its calls,
// so they find this Context and are stopped with the request.
func From(ctx context.Context) (Context, bool) {
	c, ok := ctx.Value(key{}).(Context)
	return c, ok
}
