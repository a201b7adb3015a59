package replay

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// busySpec returns a workload that keeps a few workers busy and shares prefixes.
func busySpec(pools []Pool, router policy.Name) Spec {
	return Spec{
		Synthetic: loadgen.Synthetic{Requests: 120, Input: 1500, Output: 40, Interval: 12, Turns: 1, SharedRatio: 0.5, Groups: 6},
		Speedup:   1, Topology: Topology{Pools: pools, Router: router},
	}
}

// kindsOfTest returns three kinds of workers that differ in all settings that may differ. The size of blocks is
// equal.
func kindsOfTest() []Kind {
	small := args(func(a *engineargs.Args) {
		a.Blocks, a.MaxSeqs, a.MaxBatchedTokens, a.Speedup = 64, 3, 2048, 0.4
	})
	own, err := releases.ParseProfile(releases.Newest())
	if err != nil {
		panic(err)
	}
	ranks := args(func(a *engineargs.Args) { a.Rules, a.DPSize, a.Blocks, a.Speedup = own, 2, 100, 1.5 })
	paged := args(func(a *engineargs.Args) { a.Engine, a.Blocks, a.Speedup = engineargs.SGLang, 90, 0.8 })
	return []Kind{{Name: "small", Engine: small, Count: 2}, {Name: "ranks", Engine: ranks, Count: 1}, {Name: "paged", Engine: paged, Count: 2}}
}

// recordsOf returns the outcomes of the requests of a replay.
func recordsOf(t *testing.T, s Spec) []collector.Record {
	t.Helper()
	result, err := s.Run(t.Context(), Streams{})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(result.Collector.Records())
}

// TestMixIsItsKinds compares a worker of a mix with a worker of an equally large pool of its kind. Under a router
// that reads no state both get the same requests, so their passes are equal.
func TestMixIsItsKinds(t *testing.T) {
	mix := Mix(kindsOfTest())
	for _, router := range []policy.Name{policy.RoundRobin, "random"} {
		mixed := recordsOf(t, busySpec([]Pool{mix}, router))
		first, differ := 0, map[string]bool{}
		for _, k := range mix.Mix {
			plain := recordsOf(t, busySpec(OnePool(k.Engine, mix.Count), router))
			n := 0
			for i := range mixed {
				if w := int(mixed[i].Worker); w < first || w >= first+k.Count {
					differ[k.Name] = differ[k.Name] || mixed[i] != plain[i]
					continue
				}
				n++
				if mixed[i] != plain[i] {
					t.Fatalf("%s, %s: request %d is\n%+v, in a pool of its own\n%+v", router, k.Name, i, mixed[i], plain[i])
				}
			}
			if n < 10 {
				t.Errorf("%s: %d requests went to workers of %s", router, n, k.Name)
			}
			first += k.Count
		}
		for _, k := range mix.Mix {
			if !differ[k.Name] {
				t.Errorf("%s: all workers are as those of %s", router, k.Name)
			}
		}
	}
}

// TestMixOfAlike checks that a mix of equal kinds equals a plain pool. Kinds may differ in settings without effect on
// the workload: the report is identical under any router, also in closed loop.
func TestMixOfAlike(t *testing.T) {
	a := args(func(a *engineargs.Args) { a.Blocks = 200 })
	plain := OnePool(a, 3)
	if alike := Mix([]Kind{{Name: "a", Engine: a, Count: 1}, {Name: "b", Engine: a, Count: 2}}); !reflect.DeepEqual(alike, plain[0]) {
		t.Errorf("kinds that are alike make %+v", alike)
	}
	for _, engine := range []func(*engineargs.Args){
		func(*engineargs.Args) {},
		func(a *engineargs.Args) { a.Engine, a.MaxSeqs = engineargs.SGLang, 0 },
	} {
		engine(&a)
		other := a
		other.MaxSeqs, other.StartupSeconds = a.MaxSeqs+7, 5
		for _, router := range policy.All() {
			for _, flying := range []int{0, 9} {
				want := busySpec(OnePool(a, 3), router.Name)
				if flying > 0 {
					want.Mode, want.MaxInFlight = loadgen.Concurrency, flying
				}
				got := want
				got.Pools = []Pool{Mix([]Kind{{Name: "a", Engine: a, Count: 2}, {Name: "b", Engine: other, Count: 1}})}
				if x, y := reportOf(t, want), reportOf(t, got); x != y {
					t.Errorf("%s, %d in flight: a mix of kinds that have the same effect reports\n%s\nnot\n%s", router.Name, flying, y, x)
				}
			}
		}
	}
}

// reportOf returns the report of a replay, without real time.
func reportOf(t *testing.T, s Spec) string {
	t.Helper()
	result, err := s.Run(t.Context(), Streams{})
	if err != nil {
		t.Fatal(err)
	}
	result.Report.SetWall(1)
	var text bytes.Buffer
	if err := result.Report.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestKVRouterOnMix checks that the KV router knows the caches of workers of all kinds, and sends more requests to
// faster workers.
func TestKVRouterOnMix(t *testing.T) {
	kinds := kindsOfTest()
	s := busySpec([]Pool{Mix(kinds)}, policy.KV)
	s.Speedup = 4
	reused, requests := map[int]int32{}, map[int]int{}
	for _, r := range recordsOf(t, s) {
		reused[int(r.Worker)] += r.Reused
		requests[int(r.Worker)]++
	}
	for w := range 5 {
		if reused[w] == 0 {
			t.Errorf("worker %d reused nothing for %d requests", w, requests[w])
		}
	}
	if requests[2] <= requests[0] {
		t.Errorf("the fastest worker got %d requests, a slow one %d", requests[2], requests[0])
	}
}

// TestMixSizes checks that a request must fit on every kind of worker. The error and the rejection name the kind that
// is too small.
func TestMixSizes(t *testing.T) {
	kinds := kindsOfTest()
	kinds[2].Engine.Blocks = 20 // of 64 tokens
	s := busySpec([]Pool{Mix(kinds)}, policy.RoundRobin)
	if _, err := s.Run(t.Context(), Streams{}); err == nil || !strings.Contains(err.Error(), "paged: ") {
		t.Errorf("a prompt that fits on two kinds of three: %v", err)
	}
	s.Reject = true
	result, err := s.Run(t.Context(), Streams{})
	if err != nil || len(result.Rejected) != 120 || !strings.Contains(result.Rejected[0].Err.Error(), "paged: ") {
		t.Errorf("%v, %+v", err, result)
	}
}

// TestMixLive checks that each worker of a mix has its own speed in real time.
func TestMixLive(t *testing.T) {
	fast, slow := engineargs.Default(), args(func(a *engineargs.Args) { a.Speedup = 0.25 })
	s := twoRequests()
	s.Pools = []Pool{Mix([]Kind{{Name: "fast", Engine: fast, Count: 1}, {Name: "slow", Engine: slow, Count: 1}})}
	result, err := s.RunLive(t.Context(), Streams{}, Live{})
	if err != nil {
		t.Fatal(err)
	}
	r := result.Collector.Records()
	if first, second := r[0].E2E(), r[1].E2E(); second < 2*first {
		t.Errorf("the fast worker takes %v ms, the slow one %v", first, second)
	}
}

// TestCheckMix checks that a mix is rejected if one router cannot serve it.
func TestCheckMix(t *testing.T) {
	bad := func(change func(*engineargs.Args)) func(*Spec) {
		return func(s *Spec) { change(&s.Pools[0].Mix[1].Engine) }
	}
	for _, c := range []struct {
		change func(*Spec)
		want   string // part of the error
	}{
		{bad(func(a *engineargs.Args) { a.BlockTokens = 32 }), "block_size is 64 for small and 32 for ranks"},
		{bad(func(a *engineargs.Args) { a.DPSize = 2000 }), "ranks: dp_size is 2000"},
		{bad(func(a *engineargs.Args) { a.BlockTokens = 3 }), "ranks: block_size is 3"},
		{func(s *Spec) { s.Pools[0].Mix[2].Count = 0 }, "paged: workers are 0"},
		{func(s *Spec) { s.Scale = []ScaleEvent{{At: 5, Workers: 3, Decode: KeepSize}} }, "start and stop"},
		{func(s *Spec) { s.Compat = true }, "which the reference does not have"},
	} {
		s := busySpec([]Pool{Mix(kindsOfTest())}, policy.RoundRobin)
		c.change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
