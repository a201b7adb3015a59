package mocker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/conformance"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/replay/engineargs"
)

// startRanks starts ranks that end with the test.
func startRanks(t *testing.T, o Options, n int) (*Ranks, engine.EngineConfig) {
	t.Helper()
	r, err := NewRanks(o, n)
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Start(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Cleanup(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r, c
}

// A request that names a rank is served by that rank. The rank publishes events with its number in the configured
// layout. Requests without a rank spread over the ranks.
func TestRanks(t *testing.T) {
	for i, name := range kvevents.Layouts() {
		layout := kvevents.Layout(i)
		r, config := startRanks(t, Options{Engine: quick(engineargs.VLLM), KVSockets: &kvevents.TeeOptions{
			Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", Topic: "rank-%d", Layout: layout,
		}}, 3)
		sources, _ := config.RuntimeData[kvevents.SourcesKey].([]kvevents.Source)
		if config.DataParallelSize != 3 || len(sources) != 3 {
			t.Fatalf("%s: config %+v, want 3 ranks with a source each", name, config)
		}
		var mu sync.Mutex
		told := map[string]int{} // events by socket and rank
		for i, at := range sources {
			s, err := kvevents.Subscribe(kvevents.SubscriberOptions{Events: at.Events, Replay: at.Replay, Topic: at.Topic, Observe: func(x kvevents.Received) {
				mu.Lock()
				defer mu.Unlock()
				told[fmt.Sprintf("socket %d rank %d %s", i, x.Batch.Rank, at.Topic)] += len(x.Batch.Events)
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
		}
		for i := range 3 {
			rank := uint32(2)
			rq := ask(words(100*i, 32), 2)
			rq.Routing = &engine.Routing{DPRank: &rank}
			if _, _, err := answer(r, rq, conformance.MockContext(), nil); err != nil {
				t.Fatal(err)
			}
		}
		poll.Until(t, "the events of rank 2", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return told["socket 2 rank 2 rank-2"] >= 3
		})
		mu.Lock()
		if len(told) != 1 {
			t.Errorf("%s: events %v, want those of rank 2 only", name, told)
		}
		mu.Unlock()
		for i := range 6 {
			if _, _, err := answer(r, ask(words(1000+100*i, 32), 2), conformance.MockContext(), nil); err != nil {
				t.Fatal(err)
			}
		}
		poll.Until(t, "the events of all ranks", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return told["socket 0 rank 0 rank-0"] >= 2 && told["socket 1 rank 1 rank-1"] >= 2
		})
		rank := uint32(3)
		rq := ask(words(1, 32), 2)
		rq.Routing = &engine.Routing{DPRank: &rank}
		if _, _, err := answer(r, rq, conformance.MockContext(), nil); !errors.Is(err, fault.BackendInvalidArgument) {
			t.Errorf("%s: rank 3 of 3: %v, want an invalid argument", name, err)
		}
	}
}

// Ranks pass the conformance tests of engines.
func TestRanksConform(t *testing.T) {
	err := conformance.Run(t, func() engine.Engine {
		r, err := NewRanks(Options{Engine: quick(engineargs.VLLM), KVEvents: true}, 2)
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A decode worker connects to the prefill rank that has its request, at one address for all ranks.
func TestRanksMeet(t *testing.T) {
	prefill, config := startRanks(t, Options{Engine: quick(engineargs.VLLM), Mode: engine.Prefill, BootstrapHost: "127.0.0.1"}, 2)
	decode, _ := startRanks(t, Options{Engine: quick(engineargs.VLLM), Mode: engine.Decode}, 2)
	for rank := range uint32(2) {
		at := &engine.BootstrapInfo{Host: config.BootstrapHost, Port: uint16(config.BootstrapPort), Room: uint64(rank) + 1}
		first, second := ask(words(1, 32), 1), ask(words(1, 32), 3)
		first.BootstrapInfo, first.Routing = at, &engine.Routing{DPRank: &rank}
		second.BootstrapInfo, second.PrefillResult = at, &engine.PrefillResult{DisaggregatedParams: []byte(`{}`)}
		done := make(chan error, 1)
		go func() {
			_, _, err := answer(prefill, first, conformance.MockContext(), nil)
			done <- err
		}()
		if tokens, _, err := answer(decode, second, conformance.MockContext(), nil); err != nil || len(tokens) != 3 {
			t.Errorf("rank %d: %d tokens, %v, want 3", rank, len(tokens), err)
		}
		if err := <-done; err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}
