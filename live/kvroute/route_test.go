package kvroute_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/kvroute"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router"
)

// hang is far more than anything here takes.
const hang = 2 * time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, end := context.WithTimeout(context.Background(), hang)
	t.Cleanup(end)
	return ctx
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for ctx := within(t); !is(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("never: %s", what)
		}
	}
}

func connect(t *testing.T, hub *drt.Hub) *drt.Runtime {
	t.Helper()
	rt, err := drt.Connect(within(t), drt.Config{Discovery: drt.Mem, Hub: hub, ResponseHost: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close(context.Background()) })
	return rt
}

func backend(t *testing.T, rt *drt.Runtime) *drt.Endpoint {
	t.Helper()
	e, err := rt.Endpoint("test", "backend", "generate")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// worker serves a mocker with KV events on any ports.
type worker struct {
	engine *mocker.Engine
	rt     *drt.Runtime
}

func serve(t *testing.T, hub *drt.Hub) *worker {
	t.Helper()
	args := engineargs.Default()
	args.Speedup, args.BlockTokens = 50, 16
	e, err := mocker.New(mocker.Options{Engine: args, KVHost: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{e, connect(t, hub)}
	config, err := e.Start(within(t), w.rt.ID())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Cleanup(context.Background()) })
	card, err := json.Marshal(engine.ModelCard{
		KVCacheBlockSize: config.KVCacheBlockSize,
		RuntimeConfig:    engine.RuntimeConfig{MaxNumBatchedTokens: config.MaxNumBatchedTokens, RuntimeData: config.RuntimeData},
	})
	if err != nil {
		t.Fatal(err)
	}
	at := backend(t, w.rt)
	if err := at.PutCard(within(t), card); err != nil {
		t.Fatal(err)
	}
	s, err := at.Serve(engine.NewAdapter(e, engine.AdapterOptions{}).Handler(at.Name(), w.rt.ID), drt.ServeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Register(within(t)); err != nil {
		t.Fatal(err)
	}
	return w
}

// prompt is so many blocks that begin with the given token.
func prompt(first, blocks int) []uint32 {
	out := make([]uint32, 16*blocks)
	for i := range out {
		out[i] = uint32(1000*first + i)
	}
	return out
}

// Requests go to the worker that has cached their prompts, as its KV events say;
// when it is gone, elsewhere.
func TestRoute(t *testing.T) {
	hub := drt.NewHub()
	workers := map[uint64]*worker{}
	for range 3 {
		w := serve(t, hub)
		workers[w.rt.ID()] = w
	}
	rt := connect(t, hub)
	route, err := kvroute.New(within(t), rt, backend(t, rt).Name(), kvroute.Options{Config: router.DefaultConfig(), Warn: func(s string) { t.Log(s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(route.Close)
	if err := route.Known(within(t), 3); err != nil {
		t.Fatal(err)
	}
	client, err := backend(t, rt).Client(within(t), drt.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "three instances", func() bool { return len(client.Instances()) == 3 })
	to := askedEndpoint{Client: client, Route: drt.By(route)}
	requests := 0
	// ask returns who answered and how much of the prompt was cached there.
	ask := func(tokens []uint32) (uint64, int) {
		t.Helper()
		rq := &engine.Request{TokenIDs: tokens}
		rq.SetMaxTokens(4)
		requests++
		a, err := to.Ask(within(t), cancel.New(fmt.Sprintf("00000000-0000-4000-8000-%012d", requests)), rq, nil)
		if err != nil {
			t.Fatal(err)
		}
		cached := -1
		for p, err := range a.Pieces() {
			if err != nil {
				t.Fatal(err)
			}
			if u := p.CompletionUsage; u != nil && u.PromptTokensDetails != nil {
				cached = int(u.PromptTokensDetails.CachedTokens)
			}
		}
		return a.Instance, cached
	}
	size := func() int { return route.Picker().Index().Size() }
	lowest, _ := ask(prompt(1, 10))
	for id := range workers {
		if id < lowest {
			t.Errorf("idle workers: %x answered, want the lowest, such as %x", lowest, id)
		}
	}
	eventually(t, "the blocks of the first prompt", func() bool { return size() >= 10 })

	// Somebody else's work makes the lowest busy; the prompt that is cached there
	// goes there all the same, another one does not.
	load, err := route.Picker().Pick(within(t), kvevents.Ask{Tokens: prompt(9, 4)}, []uint64{lowest})
	if err != nil {
		t.Fatal(err)
	}
	if who, cached := ask(prompt(1, 10)); who != lowest || cached < 100 {
		t.Errorf("the same prompt: %x answered with %d cached tokens, want %x", who, cached, lowest)
	}
	second, _ := ask(prompt(2, 10))
	if second == lowest {
		t.Errorf("another prompt: %x answered, which is busy", second)
	}
	load.Done()
	eventually(t, "the blocks of the second prompt", func() bool { return size() >= 20 })
	for range 3 {
		if who, cached := ask(prompt(2, 10)); who != second || cached < 100 {
			t.Errorf("the second prompt: %x answered with %d cached tokens, want %x", who, cached, second)
		}
	}

	// What a worker knew goes with it.
	if err := workers[second].rt.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two instances", func() bool { return len(client.Instances()) == 2 })
	eventually(t, "only the blocks of the first worker", func() bool {
		for _, m := range route.Picker().Index().Blocks() {
			if m.Blocks < 10 {
				return false
			}
		}
		return len(route.Picker().Index().Blocks()) == 1
	})
	if who, cached := ask(prompt(2, 10)); who == second || cached > 0 {
		t.Errorf("after the worker has left: %x answered with %d cached tokens", who, cached)
	}
	for _, l := range route.Picker().Loads() {
		if l.Requests != 0 || l.Tokens != 0 || l.Blocks != 0 {
			t.Errorf("a load is left: %+v", l)
		}
	}
}

// Without a card nobody knows the blocks, and workers take turns.
func TestWithoutCards(t *testing.T) {
	rt := connect(t, drt.NewHub())
	r, err := kvroute.New(within(t), rt, backend(t, rt).Name(), kvroute.Options{Config: router.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []uint64
	for range 4 {
		c, err := r.Pick(within(t), cancel.New("x"), &drt.Request{Payload: json.RawMessage(`{"token_ids":[1]}`)}, []uint64{5, 9})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.Instance)
	}
	if fmt.Sprint(got) != "[5 9 5 9]" {
		t.Errorf("went to %v", got)
	}
	if _, err := r.Pick(within(t), cancel.New("x"), &drt.Request{Payload: json.RawMessage(`nonsense`)}, []uint64{5}); err == nil {
		t.Error("a request that cannot be read was placed")
	}
}
