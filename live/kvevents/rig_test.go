package kvevents

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

const blockTokens = 16

// hang is the timeout of a test, longer than any step needs.
const hang = 2 * time.Minute

// passes returns n, or a quarter of it with -short.
func passes(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// within returns a context that ends only when a test hangs.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

// load is a simulated engine under endless requests. The prompts of the requests have common prefixes and exceed the
// cache of the engine.
type load struct {
	core   scheduler.Core
	tree   *prompt.Tree
	rng    *rand.Rand
	now    sim.Time
	pass   scheduler.Pass
	next   sim.RequestID
	most   int // requests in flight
	length int // maximum number of blocks of a prompt
	detail scheduler.Detail
	again  bool     // half of the prompts have full blocks only and often repeat latest
	latest []uint64 // the latest prompt with full blocks only
}

func newLoad(seed uint64, blocks, length int) *load {
	l, cfg := newIdle(seed, blocks, length)
	l.core = reference.New(cfg)
	return l
}

// newCopies returns a load with vLLM's rules, which keep several blocks of equal content.
func newCopies(t testing.TB, seed uint64, blocks, length int) *load {
	t.Helper()
	l, cfg := newIdle(seed, blocks, length)
	cfg.Rules, cfg.MaxBatchedTokens = releases.Rules033(), 256
	core, err := vllm.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.core, l.again = core, true
	return l
}

// newIdle returns a load without an engine, and the configuration for its engine.
func newIdle(seed uint64, blocks, length int) (*load, vllm.Config) {
	l := &load{rng: rand.New(rand.NewPCG(seed, 7)), most: 8, length: length}
	l.tree = prompt.NewTree(blockTokens, blockTokens, prompt.Options{})
	l.pass.Detail = &l.detail
	return l, vllm.Config{
		Settings: vllm.Settings{MaxSeqs: 256, MaxBatchedTokens: 8192, ChunkedPrefill: true},
		Blocks:   blocks, BlockTokens: blockTokens,
		PrefixCaching: true,
		Clock:         timing.Clock{Model: timing.Polynomial{}, Speedup: 1, DecodeSpeedup: 1},
		Tree:          l.tree, Capture: scheduler.CaptureEvents,
	}
}

// prompt draws a prompt that shares a prefix with earlier prompts.
func (l *load) prompt() ([]uint64, int) {
	if l.again && l.rng.IntN(2) == 0 {
		if l.latest == nil || l.rng.IntN(4) == 0 {
			l.latest, _ = l.drawPrompt()
		}
		return l.latest, len(l.latest) * blockTokens
	}
	return l.drawPrompt()
}

func (l *load) drawPrompt() ([]uint64, int) {
	ids := make([]uint64, 1+l.rng.IntN(l.length))
	family := uint64(l.rng.IntN(12))
	common := l.rng.IntN(len(ids) + 1)
	for i := range ids {
		if ids[i] = family<<32 | uint64(i); i >= common {
			ids[i] |= uint64(l.rng.IntN(1<<20)) << 8
		}
	}
	return ids, len(ids)*blockTokens - l.rng.IntN(blockTokens)
}

// step runs a pass and returns its events, which are valid until the next call.
func (l *load) step(t testing.TB) []scheduler.KVEvent {
	t.Helper()
	for l.core.Load() < l.most {
		ids, tokens := l.prompt()
		l.core.Submit(&sim.Request{ID: l.next, InputTokens: tokens, OutputTokens: 1 + l.rng.IntN(40), Prompt: l.tree.Add(ids, tokens)})
		l.next++
	}
	return l.run(t)
}

func (l *load) run(t testing.TB) []scheduler.KVEvent {
	t.Helper()
	if err := l.core.Step(l.now, l.now, &l.pass); err != nil {
		t.Fatal(err)
	}
	l.now = l.pass.End
	return l.pass.Events
}

// drain runs the requests in flight to their end.
func (l *load) drain(t testing.TB, each func([]scheduler.KVEvent)) {
	t.Helper()
	for l.core.Load() > 0 {
		each(l.run(t))
	}
}

// queries draws queries of a router: the blocks of prompts like those of the load.
func (l *load) queries(seed uint64, n int) [][]uint64 {
	other := &load{rng: rand.New(rand.NewPCG(seed, 99)), length: l.length}
	out := make([][]uint64, n)
	for i := range out {
		ids, _ := other.prompt()
		p := l.tree.Add(ids, len(ids)*blockTokens)
		out[i] = l.tree.AppendLocal(nil, &p)
	}
	return out
}

// sameAnswers compares the answers of two indexes.
func sameAnswers(t testing.TB, got, want *Index, queries [][]uint64) (hits int) {
	t.Helper()
	for i, q := range queries {
		a, b := got.Match(q, nil), want.Match(q, nil)
		if !slices.Equal(a, b) {
			t.Fatalf("query %d: %v, want %v", i, a, b)
		}
		if len(b) > 0 {
			hits++
		}
	}
	return hits
}

// open starts a tee on free ports and closes it at the end of the test.
func open(t testing.TB, o TeeOptions) *Tee {
	t.Helper()
	o.Events = "tcp://127.0.0.1:0"
	if o.Replay != "none" {
		o.Replay = "tcp://127.0.0.1:0"
	} else {
		o.Replay = ""
	}
	if o.BlockTokens == 0 {
		o.BlockTokens = blockTokens
	}
	tee, err := NewTee(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tee.Close() })
	return tee
}

// follow subscribes to a tee and applies its events to an index, as worker 0.
func follow(t testing.TB, tee *Tee, x *Index) *Subscriber {
	t.Helper()
	s, err := Subscribe(SubscriberOptions{Events: tee.Events(), Replay: tee.Replay(), BlockTokens: tee.options.BlockTokens, Sink: x.Feed(0)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// published waits until a tee has published n batches.
func published(t testing.TB, tee *Tee, n uint64) {
	t.Helper()
	for ctx := within(t); tee.Stats().Published < n; {
		select {
		case <-ctx.Done():
			t.Fatalf("%d batches published, want %d", tee.Stats().Published, n)
		case <-time.After(time.Millisecond):
		}
	}
}

// changesOf converts events to changes.
func changesOf(events []scheduler.KVEvent) []Change {
	var list []Change
	for _, e := range events {
		list = append(list, Change{Event: e})
	}
	return list
}

// blocksOf returns the number of blocks that queries can find in an index.
func blocksOf(x *Index) int {
	n := 0
	for _, m := range x.Blocks() {
		n += int(m.Blocks)
	}
	return n
}

// Applied waits until all batches with sequence numbers below next are applied or known to be lost.
func (s *Subscriber) Applied(ctx context.Context, next uint64) error {
	poll.Wait(func() bool { return s.Stats().Next >= next || ctx.Err() != nil })
	return ctx.Err()
}
