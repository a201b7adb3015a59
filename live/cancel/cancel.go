// Package cancel ends single requests.
//
// A Context belongs to a request and travels with it. It has two signals. Stop asks the request to finish early
// and deliver the result so far. Kill asks it to end at once, usually because no client is connected any more.
// A signal reaches the children, which are the calls made on behalf of the request, and is never withdrawn.
//
// Callers send both signals on purpose. Go's context.Context is separate: it ends when the consumer of a result
// is gone. WithGo, WithStop and FromGo convert between the two.
package cancel

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Context is how a request is asked to stop. It is safe for concurrent use, and saying a
// thing twice is the same as saying it once.
//
// Its state only rises: live, stopped, killed. Killed includes stopped.
type Context interface {
	// ID is the request's. Calls made on behalf of a request have its id.
	ID() string
	// IsStopped reports whether the request was asked to finish early.
	IsStopped() bool
	// IsKilled reports whether the request was asked to end at once.
	IsKilled() bool
	// Stopped is closed when the request is stopped or killed.
	Stopped() <-chan struct{}
	// Killed is closed when the request is killed.
	Killed() <-chan struct{}
	// Stop asks the request to finish early. The items in its stream stay valid, and a last item reports the
	// cancellation.
	Stop()
	// Kill asks the request to end without another word.
	Kill()
	// LinkChild makes child follow: it is stopped when this context is, and
	// killed when this context is, at once if this is so already.
	LinkChild(child Context)
	// Unlink ends that. A long-lived context with short-lived children does not grow if each child is unlinked
	// at its end.
	Unlink(child Context)
}

// The states of a context.
const (
	live int32 = iota
	stopped
	killed
)

// node is the only Context there is.
type node struct {
	id string

	// target is the highest state that was asked for. The call that raises it passes it to the children. A call
	// that finds it raised already returns, which ends a cycle of links.
	target atomic.Int32
	// state is what the world sees: target, once the children know.
	state atomic.Int32

	mu       sync.Mutex // guards what follows; never held while another context is called
	stop     chan struct{}
	kill     chan struct{}
	children []Context // in the order they were linked
}

// New returns a live context for the request with this id, or with a fresh random
// UUID if id is empty.
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

// IsID reports whether id is a UUID in its usual form of 36 characters.
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

// raiseTo takes n and all below it to a state. It claims the state first, then
// tells the children in the order they were linked, then shows it.
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

// raiseContext asks child for a state.
func raiseContext(child Context, state int32) {
	switch state {
	case stopped:
		child.Stop()
	case killed:
		child.Kill()
	}
}

// copyChildren copies the list of children, so that they can be called without the lock.
func (n *node) copyChildren() []Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.children)
}

// showState makes a state visible. A stop that took longer to reach its children
// than the kill that overtook it changes nothing.
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
	// The call that raised the target before the child was in the list may have copied the list without it.
	raiseContext(child, n.target.Load())
}

func (n *node) Unlink(child Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := slices.Index(n.children, child); i >= 0 {
		n.children = slices.Delete(n.children, i, i+1)
	}
}

// WithGo returns a context.Context that ends when c is killed, and knows c (From).
// It costs no goroutine and need not be released.
func WithGo(c Context) context.Context {
	return &goContext{c, c.Killed()}
}

// WithStop returns ctx, ending as well when c is stopped, and a function that
// releases it.
func WithStop(ctx context.Context, c Context) (context.Context, func()) {
	ctx, end := context.WithCancel(ctx)
	forget := context.AfterFunc(&goContext{c, c.Stopped()}, end)
	return ctx, func() { forget(); end() }
}

// StopThenKill stops c, and kills it unless over is closed within limit.
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

// goContext is a Context as Go knows it.
type goContext struct {
	c    Context
	done <-chan struct{}
}

// key is under which a context.Context knows its request's Context.
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

// FromGo returns a Context with this id that is stopped when ctx ends. If ctx knows
// a request's Context (From), the new one is its child. The function unlinks
// it from both; call it when the request is over.
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

// With returns ctx with c as the Context of its request.
func With(ctx context.Context, c Context) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// From returns the Context of the request that ctx serves, and reports whether it
// serves one. Calls
// that a handler makes with the ctx it was given find it here, and so are
// stopped with the request.
func From(ctx context.Context) (Context, bool) {
	c, ok := ctx.Value(key{}).(Context)
	return c, ok
}
