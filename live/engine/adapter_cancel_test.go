package engine

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/replay-llm/replay/live/cancel"
)

// Abort is called once for a stop or kill or both, and for no other end.
func TestAborts(t *testing.T) {
	tests := []struct {
		name string
		do   func(rc cancel.Context)
		want int32
	}{
		{"nothing", func(cancel.Context) {}, 0},
		{"stop", cancel.Context.Stop, 1},
		{"kill", cancel.Context.Kill, 1},
		{"stop and kill", func(rc cancel.Context) { rc.Stop(); rc.Kill() }, 1},
	}
	for _, test := range tests {
		for _, wait := range []bool{true, false} {
			aborted := make(chan struct{})
			e := &fake{abort: func(rc cancel.Context) {
				if !rc.IsStopped() {
					t.Errorf("%s: Abort of a request that is not stopped", test.name)
				}
				close(aborted)
			}}
			e.generate = func(_ context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
				if test.want > 0 && wait {
					<-aborted
				}
				yield(finish(FinishStop), nil)
			}
			rc := cancel.New("")
			test.do(rc)
			outcome(t, NewAdapter(e, AdapterOptions{}), rc, request())
			if got := e.aborts.Load(); got != test.want {
				t.Errorf("%s: %d aborts, want %d", test.name, got, test.want)
			}
			rc.Kill()
			if got := e.aborts.Load(); got != test.want {
				t.Errorf("%s, then a kill after the end: %d aborts, want %d", test.name, got, test.want)
			}
		}
	}
}

// A sequence that is read after the kill of its request ends after Abort, whether or not it was dropped before.
func TestReadAfterKill(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			aborted := false
			e := &fake{
				abort:    func(cancel.Context) { <-time.After(abortLimit / 2); aborted = true },
				generate: func(context.Context, *Request, GenContext, func(*Chunk, error) bool) {},
			}
			rc := cancel.New("")
			rc.Kill()
			chunks, err := NewAdapter(e, AdapterOptions{}).Generate(t.Context(), rc, request(), nil)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // all but Abort has ended
			for range chunks {
			}
			if !aborted {
				t.Error("the sequence ended before Abort")
			}
		})
	}
}

// On a decode worker, Abort is called after the first token, which is yielded or reported by NotifyFirstToken.
// Without a first token Abort is not called.
func TestDecodeAborts(t *testing.T) {
	rq := request()
	rq.PrefillResult = &PrefillResult{}
	for _, how := range []string{"chunk", "notice", "never"} {
		aborted := make(chan struct{})
		e := &fake{abort: func(cancel.Context) { close(aborted) }}
		e.generate = func(_ context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
			rc.Stop()
			<-rc.Stopped()
			yield(&Chunk{}, nil) // a chunk without a token
			if n := e.aborts.Load(); n != 0 {
				t.Errorf("%s: %d aborts before the first token", how, n)
			}
			switch how {
			case "chunk":
				yield(token(1), nil)
				<-aborted
			case "notice":
				rc.NotifyFirstToken()
				rc.NotifyFirstToken()
				<-aborted
			}
			yield(finish(FinishCancelled), nil)
		}
		got := outcome(t, NewAdapter(e, AdapterOptions{Mode: Decode}), cancel.New(""), rq)
		want := int32(1)
		if how == "never" {
			want = 0
		}
		if n := e.aborts.Load(); n != want || got[len(got)-1] != "cancelled" {
			t.Errorf("%s: %d aborts, want %d; %q", how, n, want, got)
		}
	}
}

// A request ends soon although its Abort panics or blocks.
func TestBadAborts(t *testing.T) {
	block := make(chan struct{})
	for name, abort := range map[string]func(cancel.Context){
		"panics": func(cancel.Context) { panic("boo") },
		"blocks": func(cancel.Context) { <-block },
	} {
		e := &fake{abort: abort, generate: func(_ context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
			<-rc.Stopped()
			yield(finish(FinishCancelled), nil)
		}}
		rc := cancel.New("")
		rc.Stop()
		if got := outcome(t, NewAdapter(e, AdapterOptions{}), rc, request()); !slices.Equal(got, []string{"cancelled"}) {
			t.Errorf("an Abort that %s: %q", name, got)
		}
	}
	close(block)
}

// At every end of a sequence, the engine's ctx ends, its deferred calls run, and yield returns false.
func TestWaysOut(t *testing.T) {
	type probe struct {
		ctx      context.Context
		released chan struct{}
	}
	endless := func(p *probe) *fake {
		return &fake{
			generate: func(ctx context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
				p.ctx = ctx
				defer close(p.released)
				for i := uint32(0); yield(token(i), nil); i++ {
				}
			},
		}
	}
	consumer := map[string]func(iter.Seq2[*Chunk, error], cancel.Context, context.CancelFunc){
		"break": func(chunks iter.Seq2[*Chunk, error], _ cancel.Context, _ context.CancelFunc) {
			for range chunks {
				break
			}
		},
		"panic": func(chunks iter.Seq2[*Chunk, error], _ cancel.Context, _ context.CancelFunc) {
			if p := panicOf(func() {
				for range chunks {
					panic("mine")
				}
			}); p != "mine" {
				t.Errorf("the consumer's panic came back as %v", p)
			}
		},
		"kill": func(chunks iter.Seq2[*Chunk, error], rc cancel.Context, _ context.CancelFunc) {
			for range chunks {
				rc.Kill()
			}
		},
		"never begun":   func(_ iter.Seq2[*Chunk, error], _ cancel.Context, leave context.CancelFunc) { leave() },
		"killed before": func(_ iter.Seq2[*Chunk, error], rc cancel.Context, _ context.CancelFunc) { rc.Kill() },
	}
	for name, consume := range consumer {
		p := &probe{released: make(chan struct{})}
		ctx, leave := context.WithCancel(t.Context())
		rc := cancel.New("")
		chunks, err := NewAdapter(endless(p), AdapterOptions{}).Generate(ctx, rc, request(), nil)
		if err != nil {
			t.Fatal(err)
		}
		consume(chunks, rc, leave)
		<-p.released
		<-p.ctx.Done()
		leave()
		for c, err := range chunks {
			t.Errorf("%s: a second round gave %s", name, word(c, err))
		}
	}
}

// The engine waits for a slow consumer.
func TestSlowConsumer(t *testing.T) {
	var ahead atomic.Int32
	e := &fake{generate: func(_ context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		for i := range uint32(100) {
			ahead.Add(1)
			if !yield(token(i), nil) {
				return
			}
		}
		yield(finish(FinishLength), nil)
	}}
	chunks, err := NewAdapter(e, AdapterOptions{}).Generate(t.Context(), cancel.New(""), request(), nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := int32(0)
	for c := range chunks {
		if len(c.TokenIDs) == 0 {
			break
		}
		if seen++; ahead.Load() != seen {
			t.Fatalf("the engine has made %d chunks, %d were taken", ahead.Load(), seen)
		}
	}
}

// The engine receives the request's id and headers, and its ctx contains the request.
func TestGenContext(t *testing.T) {
	e := &fake{generate: func(ctx context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
		if rc.ID() != "r" || rc.Metadata()["request-id"] != "u" {
			t.Errorf("id %q, metadata %q", rc.ID(), rc.Metadata())
		}
		if inner, ok := cancel.From(ctx); !ok || inner.ID() != "r" {
			t.Error("the engine's ctx does not know the request")
		}
		yield(finish(FinishStop), nil)
	}}
	chunks, err := NewAdapter(e, AdapterOptions{}).Generate(t.Context(), cancel.New("r"), request(), map[string]string{"request-id": "u"})
	if err != nil {
		t.Fatal(err)
	}
	for range chunks {
	}
}

// A consumer with an ended ctx receives no more elements.
func TestConsumerGone(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	e := &fake{generate: func(ctx context.Context, _ *Request, _ GenContext, yield func(*Chunk, error) bool) {
		yield(token(1), nil)
		<-ctx.Done()
	}}
	chunks, err := NewAdapter(e, AdapterOptions{}).Generate(ctx, cancel.New(""), request(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for c, err := range chunks {
		words = append(words, word(c, err))
		leave()
	}
	if !slices.Equal(words, []string{"[1]"}) || e.aborts.Load() != 0 {
		t.Errorf("%q and %d aborts, want one chunk and none", words, e.aborts.Load())
	}
}

// Of a thousand concurrent requests, a third are stopped or killed at some point. Each request ends with one
// terminal, or without a terminal if it was killed. Exactly the stopped and killed requests are aborted.
func TestManyRequests(t *testing.T) {
	e := &fake{generate: func(ctx context.Context, _ *Request, rc GenContext, yield func(*Chunk, error) bool) {
		for i := range uint32(20) {
			if rc.IsStopped() {
				yield(finish(FinishCancelled), nil)
				return
			}
			if !yield(token(i), nil) {
				return
			}
		}
		yield(finish(FinishLength), nil)
	}}
	a := NewAdapter(e, AdapterOptions{})
	var wg sync.WaitGroup
	var stopped atomic.Int32
	for i := range 1000 {
		wg.Go(func() {
			rc := cancel.New("")
			chunks, err := a.Generate(t.Context(), rc, request(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			terminals, at := 0, i%20
			for c, err := range chunks {
				if at--; at == 0 && i%3 == 0 {
					stopped.Add(1)
					rc.Stop()
				}
				if isTerminal(c, err) {
					terminals++
				}
			}
			if terminals != 1 {
				t.Errorf("request %d has %d terminals", i, terminals)
			}
		})
	}
	wg.Wait()
	if got := e.aborts.Load(); got != stopped.Load() {
		t.Errorf("%d aborts, want %d", got, stopped.Load())
	}
}
