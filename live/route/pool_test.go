package route_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

func endpoint(t *testing.T, rt *drt.Runtime, component string) *drt.Endpoint {
	t.Helper()
	e, err := rt.Endpoint("test", component, "generate")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// serve starts a mocker with KV events and returns its runtime. change may edit the model card.
func serve(t *testing.T, hub *drttest.Servers, mode engine.Mode, change func(*engine.ModelCard)) *drt.Runtime {
	t.Helper()
	return serveRanks(t, hub, mode, 1, change)
}

// serveRanks starts a mocker as serve does, with several data-parallel ranks.
func serveRanks(t *testing.T, hub *drttest.Servers, mode engine.Mode, ranks int, change func(*engine.ModelCard)) *drt.Runtime {
	t.Helper()
	args := engineargs.Default()
	args.Speedup, args.BlockTokens = 50, 16
	o, component := mocker.Options{Engine: args, Mode: mode}, "backend"
	if mode == engine.Prefill {
		component = "prefill"
	}
	if mode != engine.Decode {
		o.KVSockets = &kvevents.TeeOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"}
	}
	e, err := mocker.NewRanks(o, ranks)
	if err != nil {
		t.Fatal(err)
	}
	rt := drttest.Connect(t, hub.Config())
	config, err := e.Start(drttest.Within(t), rt.ID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Cleanup(context.Background()) })
	card := engine.ModelCard{
		Name: "model", WorkerType: mode, ContextLength: config.ContextLength, KVCacheBlockSize: config.KVCacheBlockSize,
		RuntimeConfig: engine.RuntimeConfig{MaxBatchedTokens: config.MaxBatchedTokens, RuntimeData: config.RuntimeData},
	}
	change(&card)
	text, err := json.Marshal(card)
	if err != nil {
		t.Fatal(err)
	}
	at := endpoint(t, rt, component)
	if err := at.PutCard(drttest.Within(t), text); err != nil {
		t.Fatal(err)
	}
	s, err := at.Serve(engine.NewAdapter(e, engine.AdapterOptions{}).Handler(at.Name(), rt.ID), drt.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Register(drttest.Within(t)); err != nil {
		t.Fatal(err)
	}
	return rt
}

// open returns a pool on a hub after the given number of workers has joined.
func open(t *testing.T, hub *drttest.Servers, workers int, o route.Options) *route.Pool {
	t.Helper()
	rt := drttest.Connect(t, hub.Config())
	cards, err := rt.Cards(drttest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := route.Open(drttest.Within(t), rt, cards, endpoint(t, rt, "backend").Name(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Await(drttest.Within(t), workers); err != nil {
		t.Fatal(err)
	}
	return p
}

// watch records the worker of a request.
type watch struct{ worker uint64 }

func (w *watch) Placed(_ scheduler.Role, worker uint64)        { w.worker = worker }
func (w *watch) Taken(scheduler.Role, uint64, time.Time)       {}
func (w *watch) Read(scheduler.Role, *engine.Chunk, time.Time) {}

// call returns the worker that answered a prompt, and its number of cached prompt tokens.
func call(t *testing.T, p engine.Target, ctx context.Context, tokens []uint32, rt *engine.Routing) (worker uint64, cached int) {
	t.Helper()
	rq := &engine.Request{TokenIDs: tokens, Routing: rt}
	rq.SetMaxTokens(4)
	w := &watch{}
	chunks, err := p.Generate(route.Observe(ctx, w), cancel.New(""), rq, nil)
	if err != nil {
		t.Fatal(err)
	}
	for c, err := range chunks {
		if err != nil {
			t.Fatal(err)
		}
		if u := c.CompletionUsage; u != nil && u.PromptTokensDetails != nil {
			cached = int(u.PromptTokensDetails.CachedTokens)
		}
	}
	return w.worker, cached
}

// prompt returns a prompt with the given number of blocks. first sets its first token.
func prompt(first, blocks int) []uint32 {
	out := make([]uint32, 16*blocks)
	for i := range out {
		out[i] = uint32(1000*first + i)
	}
	return out
}

func same(*engine.ModelCard) {}

// Requests are routed to the worker that has cached their prompts, according to its KV events. When this worker
// leaves, requests are routed to another worker.
func TestPoolByCache(t *testing.T) {
	hub := drttest.Start(t)
	workers := map[uint64]*drt.Runtime{}
	for range 3 {
		rt := serve(t, hub, engine.Aggregated, same)
		workers[rt.ID()] = rt
	}
	p := open(t, hub, 3, route.Options{Policy: policy.KV, Router: router.DefaultConfig(), Warn: func(s string) { t.Log(s) }})
	home, _ := call(t, p, drttest.Within(t), prompt(1, 10), nil)
	for id := range workers {
		if id < home {
			t.Errorf("idle workers: %x answered, want the lowest, such as %x", home, id)
		}
	}
	poll.Until(t, "the blocks of the prompt", func() bool {
		who, cached := call(t, p, drttest.Within(t), prompt(1, 10), nil)
		return who == home && cached >= 100
	})
	// A request that names a worker is routed to it, even if another worker caches the prompt.
	for id := range workers {
		if who, _ := call(t, p, drttest.Within(t), prompt(1, 10), &engine.Routing{BackendInstanceID: &id}); who != id {
			t.Errorf("%x answered, want %x, which the request named", who, id)
		}
	}
	if err := workers[home].Close(drttest.Within(t)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "two workers", func() bool { return len(p.Workers()) == 2 })
	if who, _ := call(t, p, drttest.Within(t), prompt(2, 10), nil); who == home {
		t.Errorf("%x answered, which has left", who)
	}
}

// A request is routed to the rank that has cached its prompt, unless the request names another rank.
func TestPoolByRank(t *testing.T) {
	hub := drttest.Start(t)
	serveRanks(t, hub, engine.Aggregated, 4, same)
	p := open(t, hub, 1, route.Options{Policy: policy.KV, Router: router.DefaultConfig(), Warn: func(s string) { t.Log(s) }})
	rank, other, next := uint32(3), uint32(1), 0
	inARow := 0
	poll.Until(t, "ten prompts found at their rank", func() bool {
		next++
		call(t, p, drttest.Within(t), prompt(next, 10), &engine.Routing{DPRank: &rank})
		if _, cached := call(t, p, drttest.Within(t), prompt(next, 10), nil); cached < 100 {
			inARow = 0
		} else {
			inARow++
		}
		return inARow == 10
	})
	if _, cached := call(t, p, drttest.Within(t), prompt(next, 10), &engine.Routing{DPRank: &other}); cached != 0 {
		t.Errorf("%d tokens cached at rank %d, which the request named, want none", cached, other)
	}
}

// KV routing is round robin until a card reports the block size, and for requests without tokens.
func TestPoolWithoutBlocks(t *testing.T) {
	hub := drttest.Start(t)
	for range 2 {
		serve(t, hub, engine.Aggregated, func(c *engine.ModelCard) { c.KVCacheBlockSize = 0 })
	}
	p := open(t, hub, 2, route.Options{Policy: policy.KV, Router: router.DefaultConfig()})
	ids := p.Workers()
	for i := range 4 {
		if who, _ := call(t, p, drttest.Within(t), prompt(1, 4), nil); who != ids[i%2] {
			t.Errorf("request %d went to %x, want %x", i, who, ids[i%2])
		}
	}
}

// A worker with a different block size gets requests, but its KV events are ignored.
func TestPoolOfOtherBlocks(t *testing.T) {
	hub := drttest.Start(t)
	serve(t, hub, engine.Aggregated, same)
	serve(t, hub, engine.Aggregated, func(c *engine.ModelCard) { c.KVCacheBlockSize *= 2 })
	warned := make(chan string, 100)
	open(t, hub, 2, route.Options{Policy: policy.KV, Router: router.DefaultConfig(), Warn: func(s string) { warned <- s }})
	if got := <-warned; !strings.Contains(got, "as for the other workers") {
		t.Errorf("warning %q", got)
	}
}

// The requests of a session are routed to the same worker.
func TestPoolBySession(t *testing.T) {
	hub := drttest.Start(t)
	for range 3 {
		serve(t, hub, engine.Aggregated, same)
	}
	p := open(t, hub, 3, route.Options{Policy: "session"})
	homes := map[uint64]bool{}
	for s := range 8 {
		ctx := route.WithSession(drttest.Within(t), fmt.Sprint("session ", s))
		home, _ := call(t, p, ctx, prompt(s, 2), nil)
		homes[home] = true
		if again, _ := call(t, p, ctx, prompt(s, 4), nil); again != home {
			t.Errorf("session %d went to %x, then to %x", s, home, again)
		}
	}
	if len(homes) < 2 {
		t.Error("all sessions have one home")
	}
}

// Open rejects unsupported options before a worker has joined.
func TestOpenRefuses(t *testing.T) {
	rt := drttest.Connect(t, drttest.Start(t).Config())
	cards, err := rt.Cards(drttest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	aic := router.DefaultConfig()
	aic.PrefillLoadModel = router.LoadAIC
	for _, c := range []struct {
		o    route.Options
		want string
	}{
		{route.Options{Policy: "nearest"}, `router is "nearest", must be one of round_robin, kv`},
		{route.Options{Policy: policy.KV, Router: aic}, "requires aic_perf_config"},
	} {
		if _, err := route.Open(drttest.Within(t), rt, cards, endpoint(t, rt, "backend").Name(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// Await returns an error for a worker that serves without a model card.
func TestAwaitWithoutCard(t *testing.T) {
	hub := drttest.Start(t)
	rt := drttest.Connect(t, hub.Config())
	at := endpoint(t, rt, "backend")
	s, err := at.Serve(func(context.Context, cancel.Context, *drt.Request) (iter.Seq2[drt.Item, error], error) {
		return nil, errors.New("not asked")
	}, drt.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Register(drttest.Within(t)); err != nil {
		t.Fatal(err)
	}
	cards, err := rt.Cards(drttest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	p, err := route.Open(drttest.Within(t), rt, cards, at.Name(), route.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Await(drttest.Within(t), 1); err == nil || !strings.Contains(err.Error(), "1 workers serve there, 0 of them with a model card, must be 1") {
		t.Errorf("got %v, want that there is no card", err)
	}
}
