package cancel

import (
	"context"
	"time"
)

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

// With returns ctx, knowing c as the Context of the request it serves.
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
