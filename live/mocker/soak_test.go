package mocker

import (
	"context"
	"flag"
	"fmt"
	"math/rand"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/replay/engineargs"
)

var soak = flag.Bool("soak", false, "have 10,000 requests in the mocker at once, and bound the memory")

const (
	soakTokens = 64      // tokens of each answer
	soakBytes  = 1 << 30 // limit of the memory that the process has from the system
)

// ending is how a consumer ends a request.
type ending int

const (
	toTheEnd ending = iota
	stopping        // stops the request and reads on
	leaving         // the consumer stops reading
	killing         // kills the request and reads on
)

// plan is how a consumer ends its request, and after how many tokens.
type plan struct {
	ending ending
	after  int
	pause  time.Duration
	slow   time.Duration // time between all other chunks, for a slow consumer
}

// plans returns the plans of n consumers. Three in ten end their request early: of these, eight in ten stop it, one
// in ten stops reading and one in ten kills it.
func plans(n int, seed int64) []plan {
	r := rand.New(rand.NewSource(seed))
	all := make([]plan, n)
	for i := range all {
		p := &all[i]
		p.after, p.pause = r.Intn(soakTokens), time.Duration(r.Intn(2000))*time.Microsecond
		switch {
		case i%10 >= 3:
			p.ending = toTheEnd
		case i%100 < 10:
			p.ending = leaving
		case i%100 < 20:
			p.ending = killing
		default:
			p.ending = stopping
		}
		if i%50 == 5 {
			p.slow = 200 * time.Microsecond
		}
	}
	r.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// consumers is many consumers of one mocker, and their outcomes.
type consumers struct {
	adapter *engine.Adapter

	began     sync.WaitGroup // done when all requests are in the engine
	start     chan struct{}
	terminals [4]atomic.Int64 // indexed by ending
	wrong     atomic.Int64
	tokens    atomic.Int64
	report    func(format string, args ...any)
}

// consume runs one consumer.
func (c *consumers) consume(i int, p plan) {
	rc := cancel.New("")
	rq := ask(words(i*7, 48), soakTokens)
	chunks, err := c.adapter.Generate(context.Background(), rc, rq, nil)
	c.began.Done()
	if err != nil {
		c.fail("request %d: %v", i, err)
		return
	}
	<-c.start
	got, terminals := 0, 0
	if p.ending == stopping && p.after == 0 {
		c.cancel(rc.Stop, p)
	}
	for chunk, err := range chunks {
		if err != nil {
			c.fail("request %d: %v", i, err)
			return
		}
		got += len(chunk.TokenIDs)
		if chunk.FinishReason != "" {
			terminals++
			c.judge(i, p, chunk, got)
			continue
		}
		time.Sleep(p.slow)
		if got != max(p.after, 1) || rc.IsStopped() {
			continue
		}
		switch p.ending {
		case stopping:
			c.cancel(rc.Stop, p)
		case killing:
			c.cancel(rc.Kill, p)
		case leaving:
			c.cancel(func() {}, p)
		}
		if p.ending == leaving {
			break
		}
	}
	c.tokens.Add(int64(got))
	c.terminals[p.ending].Add(int64(terminals))
	want := 1
	if p.ending == leaving || p.ending == killing {
		want = 0
	}
	if terminals != want {
		c.fail("request %d has %d terminals, want %d", i, terminals, want)
	}
}

// cancel ends a request early, like a frontend after its client left.
func (c *consumers) cancel(how func(), p plan) {
	time.Sleep(p.pause)
	how()
}

// judge checks the last chunk of an answer.
func (c *consumers) judge(i int, p plan, last *engine.Chunk, got int) {
	want := engine.FinishLength
	if p.ending == stopping {
		want = engine.FinishCancelled
	}
	switch {
	case last.FinishReason == engine.FinishLength && p.ending == stopping && got == soakTokens:
		// The last token was already produced when the request was stopped.
	case last.FinishReason != want:
		c.fail("request %d ended with %q, want %q", i, string(last.FinishReason), string(want))
	case want == engine.FinishLength && got != soakTokens:
		c.fail("request %d has %d tokens, want %d", i, got, soakTokens)
	}
	if u := last.CompletionUsage; u == nil || int(u.CompletionTokens) != got {
		c.fail("request %d counts %+v, and has %d tokens", i, u, got)
	}
}

func (c *consumers) fail(format string, args ...any) {
	if c.wrong.Add(1) <= 10 {
		c.report(format, args...)
	}
}

// peak is the maximum of each value over time.
type peak struct {
	bytes    uint64 // memory that the process has from the system
	requests int    // requests on the scheduler
}

// watch samples the peak until stop is closed.
func watch(e *Engine, stop <-chan struct{}) (most peak) {
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most.bytes = max(most.bytes, m.Sys-m.HeapReleased)
		most.requests = max(most.requests, e.ActiveRequests())
		select {
		case <-stop:
			return most
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Of many concurrent requests, three in ten are cancelled at random moments. Every stream with a reader ends with
// exactly one terminal, and no goroutine and no request is left. With -soak there are 10,000 requests and a limit of
// memory.
func TestManyConsumers(t *testing.T) {
	n := 300
	if *soak {
		n = 10_000
	}
	before := goleak.IgnoreCurrent()
	for _, kind := range []engineargs.Engine{engineargs.VLLM, engineargs.SGLang, engineargs.TRTLLM} {
		options := Options{Engine: quick(kind)}
		options.Engine.Speedup = 100
		e, err := New(options)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Start(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		c := &consumers{
			adapter: engine.NewAdapter(e, engine.AdapterOptions{}),
			start:   make(chan struct{}), report: t.Errorf,
		}
		peaks := make(chan peak, 1)
		done := make(chan struct{})
		go func() { peaks <- watch(e, done) }()
		began := time.Now()
		c.run(plans(n, 7))
		took := time.Since(began)
		close(done)
		most := <-peaks
		if left := e.ActiveRequests(); left != 0 {
			t.Errorf("%v: %d requests are left", kind, left)
		}
		if err := e.Cleanup(t.Context()); err != nil {
			t.Error(err)
		}
		c.counted(t, n)
		t.Logf("%v: %d requests, %d cancelled, %d tokens in %v; at most %d on the scheduler at once, %d MiB",
			kind, n, n*3/10, c.tokens.Load(), took.Round(time.Millisecond), most.requests, most.bytes>>20)
		if *soak && most.bytes > soakBytes {
			t.Errorf("%v: %d MiB, want at most %d", kind, most.bytes>>20, soakBytes>>20)
		}
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}

// run starts all requests before any consumer reads.
func (c *consumers) run(all []plan) {
	var wg sync.WaitGroup
	c.began.Add(len(all))
	for i, p := range all {
		wg.Go(func() { c.consume(i, p) })
	}
	c.began.Wait()
	close(c.start)
	wg.Wait()
}

// counted compares the number of terminals of each kind with the plans.
func (c *consumers) counted(t *testing.T, n int) {
	t.Helper()
	got := fmt.Sprint(c.terminals[toTheEnd].Load(), c.terminals[stopping].Load(), c.terminals[leaving].Load(), c.terminals[killing].Load())
	if want := fmt.Sprint(n*7/10, n*24/100, 0, 0); got != want {
		t.Errorf("terminals of those who read to the end, stop, leave, kill: %s, want %s", got, want)
	}
}
