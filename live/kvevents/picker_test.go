package kvevents

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim/blockhash"
)

// promptOf is a prompt of blocks of equal tokens.
func promptOf(tokens ...uint32) []uint32 {
	var out []uint32
	for _, t := range tokens {
		out = append(out, slices.Repeat([]uint32{t}, blockTokens)...)
	}
	return out
}

// caches publishes that a worker has cached a prompt.
func caches(tee *Tee, prompt []uint32) {
	local := blockhash.Request(prompt, blockTokens, blockhash.Options{})
	e := scheduler.KVEvent{}
	for i, seq := range blockhash.Sequence(local) {
		e.Stored = append(e.Stored, scheduler.KVBlock{Seq: seq, Tokens: local[i]})
	}
	tee.Enqueue([]scheduler.KVEvent{e})
}

func newPicker(t *testing.T, config string) *Picker {
	t.Helper()
	c, err := router.ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := policy.New(policy.KV, policy.Options{Config: c, BlockTokens: blockTokens, MaxBatchedTokens: 64})
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPicker(PickerOptions{Policy: kv, BlockTokens: blockTokens})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// followAll follows tees as workers 100, 200, ….
func followAll(t *testing.T, p *Picker, tees []*Tee) (ids []uint64) {
	t.Helper()
	for i, tee := range tees {
		id := uint64(i+1) * 100
		ids = append(ids, id)
		source := []Source{{Events: tee.Events(), Replay: tee.Replay()}}
		for range 2 { // again, which changes nothing
			if err := p.Follow(id, source); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ids
}

// caughtUp waits until a picker knows all that a tee has published.
func caughtUp(t *testing.T, p *Picker, worker uint64, tee *Tee, n uint64) {
	t.Helper()
	published(t, tee, n)
	p.mu.Lock()
	s := p.follows[worker].subscribers[0]
	p.mu.Unlock()
	if err := s.Applied(within(t), n); err != nil {
		t.Fatal(err)
	}
}

// Requests go where their prompts are cached, and elsewhere when too much waits
// there; what a worker knew is forgotten with it.
func TestPicker(t *testing.T) {
	tees := []*Tee{open(t, TeeOptions{}), open(t, TeeOptions{}), open(t, TeeOptions{})}
	p := newPicker(t, `{"router_queue_threshold":null}`)
	ids := followAll(t, p, tees)
	prompt := promptOf(1, 2, 3, 4, 5, 6)
	caches(tees[1], prompt[:5*blockTokens])
	caughtUp(t, p, 200, tees[1], 1)
	pick := func(available []uint64) Pick {
		t.Helper()
		got, err := p.Pick(within(t), Ask{Tokens: prompt}, available)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a := pick(ids)
	if a.Worker != 200 || a.Overlap != 5 || a.Cost != 6-5+6 {
		t.Errorf("%+v, want worker 200 with 5 blocks at cost 7", a)
	}
	if other := pick([]uint64{100, 300}); other.Worker != 100 || other.Overlap != 0 || other.Cost != 12 {
		t.Errorf("without 200: %+v", other)
	}
	for id, f := range map[string]func(){"first": a.First, "done": a.Done, "again": a.Done, "late": a.First} {
		f()
		_ = id
	}
	pick(ids).Done()
	if loads := p.Loads(); len(loads) != 3 || loads[1].Requests != 0 || loads[1].Blocks != 0 || loads[1].Tokens != 0 {
		t.Errorf("loads %+v, want none on 200", loads)
	}
	if err := p.Follow(200, nil); err != nil {
		t.Fatal(err)
	}
	if c := pick(ids); c.Overlap != 0 || p.Index().Size() != 0 {
		t.Errorf("%+v and %d blocks are known, want none after 200 was left", c, p.Index().Size())
	}
}

// A request waits while every worker is busy; it is placed when one is not, or
// gives up.
func TestPickerHolds(t *testing.T) {
	p := newPicker(t, `{"router_queue_threshold":1}`)
	ids := []uint64{7}
	first, err := p.Pick(within(t), Ask{Tokens: promptOf(1, 2, 3, 4, 5)}, ids)
	if err != nil {
		t.Fatal(err)
	}
	hold := func(ctx context.Context, id string) chan error {
		got := make(chan error, 1)
		p.mu.Lock()
		n := p.router.Queued()
		p.mu.Unlock()
		go func() {
			pick, err := p.Pick(ctx, Ask{Tokens: promptOf(9)}, ids)
			if err == nil && pick.Worker != 7 {
				err = fmt.Errorf("placed on %d", pick.Worker)
			}
			got <- err
		}()
		for c := within(t); c.Err() == nil; {
			p.mu.Lock()
			held := p.router.Queued() > n
			p.mu.Unlock()
			if held {
				return got
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatal("it is not held")
		return nil
	}
	ctx, cancel := context.WithCancel(within(t))
	gaveUp, waits := hold(ctx, "gives up"), hold(within(t), "waits")
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("gave up: %v", err)
	}
	first.First()
	if err := <-waits; err != nil {
		t.Error(err)
	}
	second, err := p.Pick(within(t), Ask{Tokens: promptOf(1, 2, 3, 4, 5)}, ids)
	if err != nil {
		t.Fatal(err)
	}
	left := hold(within(t), "left")
	p.Close()
	if err := <-left; !errors.Is(err, ErrPickerClosed) {
		t.Errorf("closed: %v", err)
	}
	second.Done()
	if _, err := p.Pick(within(t), Ask{Tokens: promptOf(1)}, ids); !errors.Is(err, ErrPickerClosed) {
		t.Errorf("closed: %v", err)
	}
}

// Many at once, with workers that come and go, leave nothing behind.
func TestPickerConcurrently(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	tee, err := NewTee(TeeOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", BlockTokens: blockTokens})
	if err != nil {
		t.Fatal(err)
	}
	c, err := router.ParseConfig([]byte(`{"router_queue_threshold":1}`))
	if err != nil {
		t.Fatal(err)
	}
	kv, err := policy.New(policy.KV, policy.Options{Config: c, BlockTokens: blockTokens, MaxBatchedTokens: 64})
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPicker(PickerOptions{Policy: kv, BlockTokens: blockTokens})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 5))
			for i := range 200 {
				available := []uint64{1, 2, 3}[:1+rng.IntN(3)]
				if i%20 == 0 {
					sources := []Source{{Events: tee.Events(), Replay: tee.Replay()}}
					if err := p.Follow(uint64(1+rng.IntN(3)), sources[:rng.IntN(2)]); err != nil {
						t.Error(err)
					}
				}
				caches(tee, promptOf(uint32(rng.IntN(3)), uint32(rng.IntN(3))))
				pick, err := p.Pick(within(t), Ask{Tokens: promptOf(uint32(rng.IntN(3)), uint32(rng.IntN(3)), 9)}, available)
				if err != nil {
					t.Error(err)
					return
				}
				if rng.IntN(2) == 0 {
					pick.First()
				}
				pick.Done()
			}
		})
	}
	all.Wait()
	for _, l := range p.Loads() {
		if l.Requests != 0 || l.Blocks != 0 || l.Tokens != 0 {
			t.Errorf("left behind: %+v", l)
		}
	}
	p.Close()
	if err := tee.Close(); err != nil {
		t.Error(err)
	}
}
