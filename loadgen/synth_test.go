package loadgen_test

import (
	. "github.com/replay-llm/replay/loadgen"

	"fmt"
	"math"
	"testing"

	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

func newTree(block int) *prompt.Tree { return prompt.NewTree(block, block, prompt.Options{}) }

func mustMake(t *testing.T, r Synthetic) *Workload {
	t.Helper()
	w, err := NewSynthetic(r)
	if err != nil {
		t.Fatal(err)
	}
	checkLinks(t, w)
	return w
}

func TestPlainSynthetic(t *testing.T) {
	// Turns of 0 and negative ratios and delays do not enable sessions.
	w := mustMake(t, Synthetic{Requests: 3, Input: 100, Output: 3, Interval: 10, SharedRatio: -1, Delay: -5})
	if !w.Synthetic || w.SessionID(2) != "session_2" {
		t.Errorf("synthetic is %v, session %q", w.Synthetic, w.SessionID(2))
	}
	prompts := Intern(w, newTree(64))
	for i := range prompts.Len() {
		p := prompts.At(i)
		if !p.Unique() || p.Blocks != 1 || int(p.Seed) != i+1 {
			t.Errorf("prompt %d is %+v", i, p)
		}
	}
	for _, c := range []struct {
		a            Admission
		script, want string
	}{
		{Admission{Speedup: 1}, "take 1e9 0\ndone", "take 1e9 0: 0 line 0/0@0 1 line 0/0@10 2 line 0/0@20\ndone: true\n"},
		{Admission{Speedup: 4}, "take 1e9 0", "take 1e9 0: 0 line 0/0@0 1 line 0/0@2.5 2 line 0/0@5\n"},
		{Admission{Mode: Concurrency, MaxInFlight: 2}, "next 0 0\ntake 0 0\nnext 0 2\ntake 7 1\ndone",
			"next 0 0: none\ntake 0 0: 0 line 0/0@0 1 line 0/0@0\nnext 0 2: none\ntake 7 1: 2 line 0/0@7\ndone: true\n"},
	} {
		f, err := NewFeed(w, prompts, c.a)
		if err != nil {
			t.Fatal(err)
		}
		if got := transcript(t, f, c.script); got != c.want {
			t.Errorf("%+v: got\n%swant\n%s", c.a, got, c.want)
		}
	}
	if _, err := NewFeed(w, prompts, Admission{}); err == nil {
		t.Error("speed-up 0 passes in trace mode")
	}
}

func TestSessionSynthetic(t *testing.T) {
	r := Synthetic{Requests: 2, Input: 200, Output: 2, Interval: 30, Turns: 2, Delay: 15, SharedRatio: 0.5, Groups: 2, Block: 64, Compat: true}
	w := mustMake(t, r)
	const want = `0 session_0/0 in=200 out=2 ids=[0 1 1 2] at=0
0 session_0/1 in=200 out=2 ids=[0 1 3 4] delay=15
0 session_1/0 in=200 out=2 ids=[0 1 5 6] at=29.999999999999996
0 session_1/1 in=200 out=2 ids=[0 1 7 8] delay=15
`
	if got := dump(w); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	f := newTestFeed(t, w, Admission{Speedup: 2})
	const arrivals = `take 1e9 0: 0 line 0/0@0 1 line 0/0@14.999999999999998
next 25.308133 1: 32.808133
`
	if got := transcript(t, f, "take 1e9 0\nend 0 25.308133\nnext 25.308133 1"); got != arrivals {
		t.Errorf("got\n%swant\n%s", got, arrivals)
	}
	g := newTestFeed(t, w, Admission{Mode: Concurrency, MaxInFlight: 5})
	if got, want := transcript(t, g, "take 0 0"), "take 0 0: 0 line 0/0@0 1 line 0/0@0\n"; got != want {
		t.Errorf("closed loop: got %swant %s", got, want)
	}
}

// The gap between sessions is computed from the rate with two divisions.
func TestSessionGap(t *testing.T) {
	for _, c := range []struct{ interval, want sim.Time }{
		{0, 0}, {1, 1}, {30, 29.999999999999996}, {7.7, 7.700000000000001},
	} {
		w := mustMake(t, Synthetic{Requests: 3, Input: 1, Output: 1, Interval: c.interval, Turns: 2, Block: 64})
		if got := w.Sessions[1].Arrival; got != c.want {
			t.Errorf("interval %v: second session at %v, want %v", c.interval, got, c.want)
		}
		if got := w.Sessions[2].Arrival; got != c.want+c.want {
			t.Errorf("interval %v: third session at %v, want %v", c.interval, got, c.want+c.want)
		}
	}
}

// Groups share no blocks. All sessions of a group have a common prefix.
func TestGroups(t *testing.T) {
	r := Synthetic{Requests: 200, Input: 640, Output: 1, Turns: 1, SharedRatio: 0.25, Groups: 4, Block: 64}
	w := mustMake(t, r)
	count := make(map[uint64]int)
	for _, turn := range w.Turns {
		ids := turn.IDs
		group := ids[0] &^ 0xFFFFFFFF
		if group>>48 != 0xA63E || group>>32&0xFFFF >= 4 || len(ids) != 10 {
			t.Fatalf("ids are %x", ids)
		}
		// 2.5 of 10 blocks is rounded away from 0.
		for b := range 3 {
			if ids[b] != group|uint64(b) {
				t.Fatalf("ids are %x", ids)
			}
		}
		if ids[3]>>32 != 0 {
			t.Fatalf("ids are %x, want 3 shared", ids)
		}
		count[group]++
	}
	if len(count) != 4 {
		t.Errorf("%d groups drawn, want 4", len(count))
	}
	if again := mustMake(t, r); dump(again) != dump(w) {
		t.Error("the same recipe gives another workload")
	}
	r.Seed = 1
	if other := mustMake(t, r); dump(other) == dump(w) {
		t.Error("another seed gives the same groups")
	}
	for _, r := range []Synthetic{
		{Requests: 2, Input: 128, Output: 1, Turns: 2, SharedRatio: 1, Block: 64},
		{Requests: 2, Input: 128, Output: 1, Turns: 2, Groups: 2, Block: 64},
	} {
		if got := fmt.Sprint(mustMake(t, r).Turns[3].IDs); got != "[7 8]" {
			t.Errorf("%+v: last ids are %s, want [7 8]: nothing is shared", r, got)
		}
	}
}

func TestRefusesRecipes(t *testing.T) {
	plain := Synthetic{Requests: 3, Input: 100, Output: 3, Interval: 10, Turns: 1, Block: 64}
	sessions := plain
	sessions.Turns = 2
	for _, c := range []struct {
		base Synthetic
		set  func(*Synthetic)
		want string
	}{
		{plain, func(r *Synthetic) { r.Input = 0 }, "input tokens are 0, must be 1 to 2147483647"},
		{plain, func(r *Synthetic) { r.Output = 0 }, "output tokens are 0, must be 1 to 2147483647"},
		{plain, func(r *Synthetic) { r.Requests = 0 }, "requests are 0, must be 1 to 2147483647"},
		{plain, func(r *Synthetic) { r.Interval = -1 }, "arrival interval is -1 ms, must be finite and >= 0"},
		{plain, func(r *Synthetic) { r.Interval = sim.Time(math.NaN()) }, "arrival interval is NaN ms, must be finite and >= 0"},
		{plain, func(r *Synthetic) { r.Interval = sim.Time(math.Inf(1)) }, "arrival interval is +Inf ms, must be finite and >= 0"},
		{plain, func(r *Synthetic) { r.Interval = 1e308 }, "arrival interval is 1e+308 ms, so that the arrival of request 3 is not a finite number"},
		{sessions, func(r *Synthetic) { r.Turns = 0; r.Groups = 1 }, "turns per session are 0, must be at least 1"},
		{sessions, func(r *Synthetic) { r.Delay = -1 }, "inter-turn delay is -1 ms, must be finite and >= 0"},
		{sessions, func(r *Synthetic) { r.Delay = sim.Time(math.Inf(1)) }, "inter-turn delay is +Inf ms, must be finite and >= 0"},
		{sessions, func(r *Synthetic) { r.SharedRatio = 1.01 }, "shared prefix ratio is 1.01, must be 0 to 1"},
		{sessions, func(r *Synthetic) { r.SharedRatio = math.NaN() }, "shared prefix ratio is NaN, must be 0 to 1"},
		{sessions, func(r *Synthetic) { r.Groups = -1 }, "prefix groups are -1, must be 0 to 2147483647"},
		{sessions, func(r *Synthetic) { r.Interval = 1e-306 }, "arrival interval is 1e-306 ms, so small that the rate is no number"},
		{sessions, func(r *Synthetic) { r.Block = 0 }, "block size is 0 tokens, must be at least 1"},
		{sessions, func(r *Synthetic) { r.Turns = math.MaxInt32 }, "3 sessions of 2147483647 turns, must be at most 2147483647 turns in all"},
		{sessions, func(r *Synthetic) { r.Input = math.MaxInt32; r.Block = 1 }, "6 prompts of 2147483647 blocks, must be at most 268435456 blocks in all"},
	} {
		r := c.base
		c.set(&r)
		if _, err := NewSynthetic(r); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
