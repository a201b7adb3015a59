package kvevents

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/scheduler"
)

// A subscriber that is attached before the first event rebuilds exactly the blocks that the engine caches. A
// subscriber that is attached after the last event rebuilds the same blocks.
func TestSubscribersRebuildTheBlockSet(t *testing.T) {
	for name, steps := range map[string]int{"all kept": 100_000, "a ring of 16": 16} {
		t.Run(name, func(t *testing.T) {
			tee := open(t, TeeOptions{BufferSteps: steps})
			early, own := NewIndex(func(s string) { t.Error(s) }), NewIndex(nil)
			first := follow(t, tee, early)
			feed := own.Feed(0)
			l := newLoad(2, 500, 20)
			total := uint64(0)
			publish := func(events []scheduler.KVEvent) {
				if n := tee.Enqueue(events); n > 0 {
					t.Errorf("%d events dropped", n)
				}
				feed.Take(changesOf(events))
				total += uint64(len(events))
			}
			for range passes(1500) {
				publish(l.step(t))
			}
			l.drain(t, publish)
			late := NewIndex(func(s string) { t.Error(s) })
			second := follow(t, tee, late)
			for _, s := range []*Subscriber{first, second} {
				if err := s.Applied(within(t), total); err != nil {
					t.Fatal(err)
				}
			}
			queries := l.queries(3, 1000)
			for _, x := range []*Index{early, late} {
				sameAnswers(t, x, own, queries)
				if x.Size() != l.detail.Cached || blocksOf(x) != l.detail.Cached {
					t.Errorf("%d blocks in the index, %d to be found, %d in the engine", x.Size(), blocksOf(x), l.detail.Cached)
				}
			}
			if s := second.Stats(); steps == 16 && s.Snapshots == 0 {
				t.Errorf("the late subscriber took no snapshot: %+v", s)
			}
		})
	}
}

// Subscribers that are attached at any time have the same index in the end as a subscriber of the complete run.
func TestSubscribersUnderLoad(t *testing.T) {
	for name, l := range map[string]*load{"the reference's rules": newLoad(4, 500, 20), "vLLM's own": newCopies(t, 4, 500, 20)} {
		t.Run(name, func(t *testing.T) { followLoad(t, l) })
	}
}

func followLoad(t *testing.T, l *load) {
	tee := open(t, TeeOptions{BufferSteps: 16})
	own := NewIndex(func(s string) { t.Error(s) })
	feed := own.Feed(0)
	rng := rand.New(rand.NewPCG(4, 4))
	var following []*Subscriber
	var indexes []*Index
	total := uint64(0)
	for pass := range passes(2000) {
		events := l.step(t)
		tee.Enqueue(events)
		feed.Take(changesOf(events))
		total += uint64(len(events))
		if pass%100 == 0 {
			x := NewIndex(func(s string) { t.Error(s) })
			indexes = append(indexes, x)
			following = append(following, follow(t, tee, x))
		}
		if len(following) > 4 && rng.IntN(50) == 0 {
			k := rng.IntN(len(following))
			following[k].Close()
			following = append(following[:k], following[k+1:]...)
			indexes = append(indexes[:k], indexes[k+1:]...)
		}
	}
	queries := l.queries(3, 300)
	for i, s := range following {
		if err := s.Applied(within(t), total); err != nil {
			t.Fatal(err)
		}
		sameAnswers(t, indexes[i], own, queries)
		if indexes[i].Size() != own.Size() {
			t.Errorf("%d blocks, want %d", indexes[i].Size(), own.Size())
		}
	}
}

// A subscriber detects that a publisher was restarted at the same address.
func TestPublisherBeginsAnew(t *testing.T) {
	tee := open(t, TeeOptions{})
	x := NewIndex(nil)
	s := follow(t, tee, x)
	block := func(seq uint64) scheduler.KVEvent { return store(0, scheduler.KVBlock{Seq: seq, Tokens: seq}) }
	for seq := range uint64(10) {
		tee.Enqueue([]scheduler.KVEvent{block(seq + 1)})
	}
	if err := s.Applied(within(t), 10); err != nil {
		t.Fatal(err)
	}
	events, replay := tee.Events(), tee.Replay()
	for round, count := range []uint64{3, 30} { // fewer batches than before, then more
		if err := tee.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if tee, err = NewTee(TeeOptions{Events: events, Replay: replay, BlockTokens: blockTokens}); err != nil {
			t.Fatal(err)
		}
		for seq := range count {
			tee.Enqueue([]scheduler.KVEvent{block(1000*uint64(round+1) + seq)})
		}
		for ctx := within(t); s.Stats().Restarts <= uint64(round) || s.Stats().Next != count; {
			select {
			case <-ctx.Done():
				t.Fatalf("round %d: %+v", round, s.Stats())
			case <-time.After(time.Millisecond):
			}
		}
		if x.Size() != int(count) || len(x.Match([]uint64{1000 * uint64(round+1)}, nil)) != 1 {
			t.Errorf("round %d: %d blocks, want the %d of the new publisher", round, x.Size(), count)
		}
	}
	_ = tee.Close()
}

// Without a replay endpoint, missed events are lost, and the subscriber warns about them.
func TestNoReplay(t *testing.T) {
	tee := open(t, TeeOptions{Replay: "none"})
	tee.Enqueue([]scheduler.KVEvent{store(0, scheduler.KVBlock{Seq: 1, Tokens: 1})})
	published(t, tee, 1)
	var mu sync.Mutex
	var said []string
	x := NewIndex(nil)
	s, err := Subscribe(SubscriberOptions{Events: tee.Events(), Sink: x.Feed(0), Warn: func(w string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, w)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	poll.Until(t, "a subscriber", func() bool { return tee.Stats().Subscribers > 0 })
	tee.Enqueue([]scheduler.KVEvent{store(0, scheduler.KVBlock{Seq: 2, Tokens: 2})})
	if err := s.Applied(within(t), 2); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats(); got.Gaps != 1 || got.Incomplete != 1 || got.Live != 1 || x.Size() != 1 {
		t.Errorf("%+v and %d blocks", got, x.Size())
	}
	mu.Lock()
	defer mu.Unlock()
	if len(said) == 0 {
		t.Error("nobody was told")
	}
}

// Events that do not fit in the queue are dropped and counted. Enqueue does not wait.
func TestQueueIsBounded(t *testing.T) {
	said := make(chan string, 10)
	tee := open(t, TeeOptions{QueueEvents: 5, Warn: func(s string) { said <- s }})
	events := make([]scheduler.KVEvent, 2000)
	for i := range events {
		events[i] = scheduler.KVEvent{Removed: []uint64{uint64(i)}}
	}
	dropped := tee.Enqueue(events) // under one lock: no event is published meanwhile
	if dropped != 1995 {
		t.Errorf("%d dropped, want 1995", dropped)
	}
	published(t, tee, 5)
	if got, want := <-said, "events dropped, 1 in all: more than 5 wait to be published"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	if got := tee.Stats(); got.QueueDropped != 1995 || got.Published != 5 {
		t.Errorf("%+v", got)
	}
	if err := tee.Close(); err != nil {
		t.Fatal(err)
	}
	if tee.Enqueue(events[:3]) != 3 {
		t.Error("a closed tee takes events")
	}
}

// Close publishes the queued events and leaves no goroutine running.
func TestClose(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	tee, err := NewTee(TeeOptions{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", BlockTokens: 4})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Subscribe(SubscriberOptions{Events: tee.Events(), Replay: tee.Replay()})
	if err != nil {
		t.Fatal(err)
	}
	events := make([]scheduler.KVEvent, 1000)
	for i := range events {
		events[i] = scheduler.KVEvent{Removed: []uint64{uint64(i)}}
	}
	tee.Enqueue(events)
	if err := tee.Close(); err != nil {
		t.Fatal(err)
	}
	if n := tee.Stats().Published; n != 1000 {
		t.Errorf("%d batches published, want 1000", n)
	}
	if err := tee.Close(); err != nil {
		t.Error(err)
	}
	s.Close()
}

func TestRefusals(t *testing.T) {
	for _, o := range []TeeOptions{
		{BlockTokens: 0},
		{BlockTokens: 4, Events: "ipc:///tmp/x"},
		{BlockTokens: 4, Events: "tcp://127.0.0.1"},
		{BlockTokens: 4, Events: "tcp://127.0.0.1:0", Replay: "127.0.0.1:0"},
		{BlockTokens: 4, Events: "tcp://127.0.0.1:0", BufferSteps: -1},
	} {
		if tee, err := NewTee(o); err == nil {
			_ = tee.Close()
			t.Errorf("%+v was taken", o)
		}
	}
	for _, o := range []SubscriberOptions{{Events: "tcp://x"}, {Events: "tcp://127.0.0.1:1", Replay: "x"}} {
		if s, err := Subscribe(o); err == nil {
			s.Close()
			t.Errorf("%+v was taken", o)
		}
	}
}
