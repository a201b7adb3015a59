package cancel

import (
	"context"
	"time"
)

// WithGo is a context.Context that ends when c is killed, and knows c (From).
// It costs no goroutine and need not be released.
func WithGo(c Context) context.Context {
	return &goContext{c, c.Killed()}
}

// WithGoStop is WithGo, ending already when c is stopped.
func WithGoStop(c Context) context.Context {
	return &goContext{c, c.Stopped()}
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

// FromGo is a Context with this id that is stopped when ctx ends. If ctx knows
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

// With is ctx, knowing c as the Context of the request it serves.
func With(ctx context.Context, c Context) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// From is the Context of the request that ctx serves, if it serves one. Calls
// that a handler makes with the ctx it was given find it here, and so are
// stopped with the request.
func From(ctx context.Context) (Context, bool) {
	c, ok := ctx.Value(key{}).(Context)
	return c, ok
}
