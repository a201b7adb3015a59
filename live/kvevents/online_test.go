package kvevents_test

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

var measureTee = flag.Bool("kv-tee", false, "measure what publishing KV events to a consumer that never reads costs")

// config returns a replay in real time of a trace by the given number of workers.
func config(t testing.TB, workers int, trace string) online.Config {
	t.Helper()
	a := engineargs.Default()
	a.BlockTokens = 64
	w, err := registry.Read(strings.NewReader(trace), "trace.jsonl", formats.Options{Format: formats.Mooncake, TraceBlock: 64})
	if err != nil {
		t.Fatal(err)
	}
	return online.Config{Config: harness.Config{
		Workload: w, Admission: loadgen.Admission{Mode: loadgen.Trace, Speedup: 1},
		Topology: engines.Topology{Pools: engines.OnePool(a, workers)},
	}}
}

// line returns a request of a trace.
func line(at, input, output int, ids string) string {
	return fmt.Sprintf(`{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]}`+"\n", at, input, output, ids)
}

// mustRun runs a replay to its end.
func mustRun(t testing.TB, c online.Config) *harness.Result {
	t.Helper()
	c.Warn = func(text string) { t.Logf("warning: %s", text) }
	r, err := online.Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Partial || r.Cancelled > 0 {
		t.Fatalf("the run ended early: %v, %d cancelled", r.Cause, r.Cancelled)
	}
	return r
}

// tees publishes the KV events of each worker with a separate tee.
type tees struct {
	all []*kvevents.Tee
	own *kvevents.Index // built directly from the events

	mu     sync.Mutex
	feeds  []*kvevents.Feed
	events []uint64
	cached []int // blocks in the engine's cache after its latest pass
}

func newTees(t *testing.T, workers int, o kvevents.TeeOptions) *tees {
	t.Helper()
	x := &tees{own: kvevents.NewIndex(func(s string) { t.Error(s) }), events: make([]uint64, workers), cached: make([]int, workers)}
	for w := range workers {
		o.Events, o.Replay = "tcp://127.0.0.1:0", "tcp://127.0.0.1:0"
		tee, err := kvevents.NewTee(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tee.Close() })
		x.all = append(x.all, tee)
		x.feeds = append(x.feeds, x.own.Feed(sim.WorkerID(w)))
	}
	return x
}

// raw is the function for Config.Raw.
func (x *tees) raw(_ scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	x.all[w].Enqueue(p.Events)
	var changes []kvevents.Change
	for _, e := range p.Events {
		e.Stored, e.Removed = slices.Clone(e.Stored), slices.Clone(e.Removed)
		changes = append(changes, kvevents.Change{Event: e})
	}
	x.feeds[w].Take(changes)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.events[w] += uint64(len(p.Events))
}

// cachedBlocks records the number of cached blocks that each engine reports.
type cachedBlocks struct {
	harness.NoObserver
	x *tees
}

func (c cachedBlocks) Pass(_ scheduler.Role, w sim.WorkerID, p *scheduler.Pass) {
	c.x.cached[w] = p.Detail.Held + p.Detail.Cached
}

// Subscribers that are attached before the first request rebuild exactly the blocks that the workers cache, while
// requests arrive in real time.
func TestSubscribersRebuildWhatWorkersCache(t *testing.T) {
	var trace string
	for i := range 40 {
		ids := make([]string, 4+i%5)
		for k := range ids {
			if ids[k] = fmt.Sprint(k); k > i%4 {
				ids[k] = fmt.Sprint(100*i + k)
			}
		}
		trace += line(2*i, 64*len(ids), 1+i%7, strings.Join(ids, ","))
	}
	c := config(t, 2, trace)
	c.Pools[0].Engine.Blocks = 64
	c.Pools[0].Engine.Speedup, c.Pools[0].Engine.DecodeSpeedup = 10, 1
	x := newTees(t, 2, kvevents.TeeOptions{BlockTokens: 64})
	c.Raw, c.Observer = x.raw, cachedBlocks{x: x}
	got := kvevents.NewIndex(func(s string) { t.Error(s) })
	var following []*kvevents.Subscriber
	for w, tee := range x.all {
		s, err := kvevents.Subscribe(kvevents.SubscriberOptions{Events: tee.Events(), Replay: tee.Replay(), BlockTokens: 64, Sink: got.Feed(sim.WorkerID(w))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		following = append(following, s)
	}
	mustRun(t, c)
	for w, s := range following {
		poll.Until(t, fmt.Sprintf("all events of worker %d", w), func() bool { return s.Stats().Next >= x.events[w] })
	}
	blocks, want := got.Blocks(), x.own.Blocks()
	if !slices.Equal(blocks, want) || len(blocks) != 2 {
		t.Fatalf("blocks by worker %v, want %v", blocks, want)
	}
	for w, b := range blocks {
		if int(b.Blocks) != x.cached[w] || x.events[w] == 0 {
			t.Errorf("worker %d: %d blocks rebuilt, %d cached in the engine; %d events", w, b.Blocks, x.cached[w], x.events[w])
		}
	}
}

// stalled subscribes to a tee and never reads.
func stalled(t *testing.T, tee *kvevents.Tee) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(tee.Events(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	hello, err := hex.DecodeString("ff00000000000000017f" + "0300" + "4e554c4c" + strings.Repeat("00", 48) + // greeting of ZMTP
		"0419" + "055245414459" + "0b536f636b65742d54797065" + "00000003" + "535542" + // READY of a SUB socket
		"000101") // subscribes to all topics
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(hello); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a subscriber", func() bool { return tee.Stats().Subscribers > 0 })
}

// A consumer that never reads misses messages, but changes the duration of a run by at most 1 %.
func TestStalledConsumerCostsNothing(t *testing.T) {
	if !*measureTee {
		t.Skip("measures real time; make kv-snapshot runs it")
	}
	var trace string
	for i := range 120 {
		ids := make([]string, 60)
		for k := range ids {
			ids[k] = fmt.Sprint(1000*i + k)
		}
		trace += line(5*i, 64*len(ids), 4, strings.Join(ids, ","))
	}
	const (
		nobody   = "nobody publishes"
		unheard  = "nobody listens"
		neverHas = "a consumer that never reads"
		runs     = 9 // runs of each mode
	)
	run := func(how string) (ms float64, dropped uint64) {
		c := config(t, 1, trace)
		c.Admission = loadgen.Admission{Mode: loadgen.Concurrency, MaxInFlight: 4} // the passes then determine the duration
		c.Pools[0].Engine.BlockTokens = 2
		c.Pools[0].Engine.Blocks = 30_000
		c.Pools[0].Engine.Speedup, c.Pools[0].Engine.DecodeSpeedup = 10, 1
		x := newTees(t, 1, kvevents.TeeOptions{BlockTokens: 2, HighWater: 16})
		c.Raw = func(_ scheduler.Role, w sim.WorkerID, p *scheduler.Pass) { x.all[w].Enqueue(p.Events) }
		switch how {
		case nobody:
			c.Raw = func(scheduler.Role, sim.WorkerID, *scheduler.Pass) {}
		case neverHas:
			stalled(t, x.all[0])
		}
		r := mustRun(t, c)
		return r.Report.DurationMS, x.all[0].Stats().SendDropped
	}
	ms := make(map[string][]float64)
	for range runs {
		for _, how := range []string{nobody, unheard, neverHas} {
			took, dropped := run(how)
			ms[how] = append(ms[how], took)
			if (dropped > 0) != (how == neverHas) {
				t.Errorf("%s: %d messages were missed", how, dropped)
			}
		}
	}
	// The shortest of several runs is the least disturbed by other processes.
	least := func(how string) float64 { return slices.Min(ms[how]) }
	change := least(neverHas)/least(unheard) - 1
	t.Logf("duration, the shortest of %d: %.1f ms with %s, %.1f ms where %s (%+.2f %%), %.1f ms where %s",
		runs, least(neverHas), neverHas, least(unheard), unheard, 100*change, least(nobody), nobody)
	if change > 0.01 || change < -0.01 {
		t.Errorf("the run takes %+.2f %%, want at most 1 %%", 100*change)
	}
}
