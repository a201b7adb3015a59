package route

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/blockhash"
)

const blockTokens = 16

// promptOf returns a prompt of one block per token. All tokens of a block are equal.
func promptOf(tokens ...uint32) []uint32 {
	var out []uint32
	for _, t := range tokens {
		out = append(out, slices.Repeat([]uint32{t}, blockTokens)...)
	}
	return out
}

// publish publishes that a worker has cached a prompt.
func publish(tee *kvevents.Tee, prompt []uint32) {
	local := blockhash.Request(prompt, blockTokens, blockhash.Options{})
	e := scheduler.KVEvent{}
	for i, seq := range blockhash.Sequence(local) {
		e.Stored = append(e.Stored, scheduler.KVBlock{Seq: seq, Tokens: local[i]})
	}
	tee.Enqueue([]scheduler.KVEvent{e})
}

func newTee(t *testing.T) *kvevents.Tee {
	t.Helper()
	tee, err := kvevents.NewTee(kvevents.TeeOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", BlockTokens: blockTokens})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tee.Close() })
	return tee
}

func sourceOf(tee *kvevents.Tee) []kvevents.Source {
	return []kvevents.Source{{Events: tee.Events(), Replay: tee.Replay()}}
}

// newTestPicker returns a picker of the KV policy with passes of 64 tokens.
func newTestPicker(t *testing.T, config string) *picker {
	t.Helper()
	c, err := router.ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPicker(policy.KV, &Options{Router: c}, blockTokens, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// pickWorker picks one of the available workers for a prompt.
func pickWorker(t *testing.T, p *picker, tokens []uint32, available ...uint64) drt.Choice {
	t.Helper()
	c, err := p.pickWorker(drttest.Within(t), cancel.New(""), ask{tokens: tokens}, available)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// checkIdle checks that no worker has work.
func checkIdle(t *testing.T, p *picker) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.router.Loads()
	for w := range c.Running {
		if c.Running[w] != 0 || c.Blocks[w] != 0 || c.Tokens[w] != 0 {
			t.Errorf("worker %d has %d requests, %d blocks and %d tokens left", p.worker[w], c.Running[w], c.Blocks[w], c.Tokens[w])
		}
	}
	if held := len(p.tickets) - len(p.vacant); held != 0 {
		t.Errorf("%d requests are still known", held)
	}
}

// Requests are routed to the worker that has cached their prompts. When this worker leaves, requests are routed to
// other workers. The index drops the worker.
func TestPickByCache(t *testing.T) {
	p := newTestPicker(t, `{"router_queue_threshold":null}`)
	tees := map[uint64]*kvevents.Tee{100: newTee(t), 200: newTee(t), 300: newTee(t)}
	for name, tee := range tees {
		for range 2 { // the second call changes nothing
			if err := p.followWorker(name, sourceOf(tee)); err != nil {
				t.Fatal(err)
			}
		}
	}
	prompt := promptOf(1, 2, 3, 4, 5, 6)
	publish(tees[200], prompt[:5*blockTokens])
	poll.Until(t, "five blocks", func() bool { return p.index.Size() == 5 })
	a := pickWorker(t, p, prompt, 100, 200, 300)
	if a.Instance != 200 {
		t.Errorf("went to %d, want 200, where it is cached", a.Instance)
	}
	if b := pickWorker(t, p, prompt, 100, 300); b.Instance != 100 {
		t.Errorf("without 200: went to %d, want 100", b.Instance)
	} else {
		b.Done()
	}
	for _, f := range []func(){a.First, a.First, a.Done, a.Done, a.First} {
		f()
	}
	checkIdle(t, p)
	if err := p.followWorker(200, nil); err != nil {
		t.Fatal(err)
	}
	if c := pickWorker(t, p, prompt, 100, 200, 300); c.Instance != 100 || p.index.Size() != 0 {
		t.Errorf("went to %d and %d blocks are known, want 100 and none after 200 was left", c.Instance, p.index.Size())
	}
}

// A request waits while every worker is busy. The router places the request when a worker becomes free.
func TestPickHolds(t *testing.T) {
	p := newTestPicker(t, `{"router_queue_threshold":1}`)
	queued := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.router.Queued()
	}
	first := pickWorker(t, p, promptOf(1, 2, 3, 4, 5), 7)
	hold := func(ctx context.Context, rc cancel.Context) chan error {
		t.Helper()
		n := queued()
		got := make(chan error, 1)
		go func() {
			c, err := p.pickWorker(ctx, rc, ask{tokens: promptOf(9)}, []uint64{7})
			if err == nil {
				c.Done()
			}
			got <- err
		}()
		poll.Until(t, "a held request", func() bool { return queued() > n })
		return got
	}
	ctx, giveUp := context.WithCancel(drttest.Within(t))
	rc := cancel.New("")
	gaveUp, stopped, waits := hold(ctx, cancel.New("")), hold(drttest.Within(t), rc), hold(drttest.Within(t), cancel.New(""))
	giveUp()
	rc.Stop()
	for got, want := range map[chan error]string{gaveUp: "canceled", stopped: "cancelled while every worker was busy"} {
		if err := <-got; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	first.First()
	if err := <-waits; err != nil {
		t.Error(err)
	}
	first.Done()
	second := pickWorker(t, p, promptOf(1, 2, 3, 4, 5), 7)
	left := hold(drttest.Within(t), cancel.New(""))
	p.close()
	if err := <-left; err == nil || !strings.Contains(err.Error(), errClosed.Error()) {
		t.Errorf("closed: %v", err)
	}
	second.Done()
	checkIdle(t, p)
	if _, err := p.pickWorker(drttest.Within(t), cancel.New(""), ask{tokens: promptOf(1)}, []uint64{7}); err == nil {
		t.Error("a closed picker chose")
	}
}

// Concurrent requests leave no state, even if workers join and leave.
func TestPickConcurrently(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	tee := newTee(t)
	defer tee.Close()
	p := newTestPicker(t, `{"router_queue_threshold":1}`)
	defer p.close()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 5))
			for i := range 200 {
				available := []uint64{1, 2, 3}[:1+rng.IntN(3)]
				if i%20 == 0 {
					if err := p.followWorker(uint64(1+rng.IntN(3)), sourceOf(tee)[:rng.IntN(2)]); err != nil {
						t.Error(err)
					}
				}
				publish(tee, promptOf(uint32(rng.IntN(3)), uint32(rng.IntN(3))))
				c, err := p.pickWorker(drttest.Within(t), cancel.New(""), ask{tokens: promptOf(uint32(rng.IntN(3)), uint32(rng.IntN(3)), 9)}, available)
				if err != nil {
					t.Error(err)
					return
				}
				if rng.IntN(2) == 0 {
					c.First()
				}
				c.Done()
			}
		})
	}
	all.Wait()
	checkIdle(t, p)
}

// Every policy routes to the current workers, which are in ascending order.
func TestPickByEveryPolicy(t *testing.T) {
	for _, info := range policy.All() {
		t.Run(string(info.Name), func(t *testing.T) {
			p, err := newPicker(info.Name, &Options{Router: router.DefaultConfig()}, blockTokens, 0)
			if info.Prompts {
				if err == nil {
					t.Error("a policy that keeps prompts, which the frontend has not, is made")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			rng := sim.NewRand(1, "workers")
			met := map[uint64]bool{}
			for range 300 {
				available := []uint64{11, 22, 33, 44}[rng.IntN(3):]
				c, err := p.pickWorker(drttest.Within(t), cancel.New(""), ask{promptOf(1, 2), fmt.Sprint(rng.IntN(20))}, available)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(available, c.Instance) {
					t.Fatalf("went to %d, want one of %v", c.Instance, available)
				}
				met[c.Instance] = true
				if rng.IntN(3) > 0 {
					c.Done()
				}
			}
			if len(met) != 4 {
				t.Errorf("of four workers %d got requests", len(met))
			}
		})
	}
}

// The requests of a session are routed to the same worker, even if other workers join and leave. Requests without a
// session are routed to the least loaded worker.
func TestPickBySession(t *testing.T) {
	p, err := newPicker("session", &Options{}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	pick := func(session string, available ...uint64) uint64 {
		t.Helper()
		c, err := p.pickWorker(drttest.Within(t), cancel.New(""), ask{session: session}, available)
		if err != nil {
			t.Fatal(err)
		}
		c.Done()
		return c.Instance
	}
	moved := 0
	for i := range 40 {
		name := fmt.Sprint("session ", i)
		home := pick(name, 5, 6, 7, 8)
		if again := pick(name, 5, 6, 7, 8); again != home {
			t.Errorf("%s went to %d, then to %d", name, home, again)
		}
		if without := pick(name, 5, 6, 7); without != home {
			moved++
			if home != 8 {
				t.Errorf("%s moved from %d to %d although only 8 had left", name, home, without)
			}
		}
		if back := pick(name, 5, 6, 7, 8); back != home {
			t.Errorf("%s went to %d, and to %d when 8 was back", name, home, back)
		}
	}
	if moved == 0 || moved > 20 {
		t.Errorf("%d of 40 sessions moved, want about 10", moved)
	}
	if got := pick("", 5, 6); got != 5 {
		t.Errorf("without a session: %d, want the first of the idle", got)
	}
}

// The ids of workers that have left are reused.
func TestNumbersAreUsedAgain(t *testing.T) {
	p := newTestPicker(t, `{}`)
	for name := range uint64(1000) {
		a := pickWorker(t, p, promptOf(1, 2, 3), 10*name, 10*name+1)
		b := pickWorker(t, p, promptOf(4), 10*name, 10*name+1)
		if a.Instance != 10*name || b.Instance != 10*name+1 {
			t.Fatalf("went to %d and %d, want %d and the next", a.Instance, b.Instance, 10*name)
		}
		a.Done()
		b.Done()
	}
	if len(p.worker) > 4 || len(p.number) > 4 || len(p.tickets) > 2 {
		t.Errorf("%d ids and %d names of workers, %d of requests are kept", len(p.worker), len(p.number), len(p.tickets))
	}
}
