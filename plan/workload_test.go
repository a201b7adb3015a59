package plan

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

const sessions = "../cmd/replay/testdata/files/sessions.jsonl"

func engine(role scheduler.Role) engineargs.Args {
	a := engineargs.Default()
	a.Role, a.BlockTokens = role, 64
	return a
}

// specs returns replays of all kinds of one file.
func specs() map[string]replay.Spec {
	base := replay.Spec{
		Trace:   &replay.Trace{Path: sessions, Format: formats.Mooncake, BlockTokens: 64},
		Speedup: 1, Topology: replay.Topology{Pools: replay.OnePool(engineargs.Default(), 1), Seed: 42},
	}
	all := map[string]replay.Spec{"one worker": base}
	kv := base
	kv.Topology, kv.Speedup = kv.Resize(3), 2
	kv.Router = policy.KV
	all["kv"] = kv
	closed := base
	closed.Mode, closed.MaxInFlight, closed.Topology = loadgen.Concurrency, 2, closed.Resize(2)
	all["closed loop"] = closed
	two := base
	two.Pools = replay.TwoPools(replay.Pool{Engine: engine(scheduler.Prefill), Count: 1}, replay.Pool{Engine: engine(scheduler.Decode), Count: 2})
	all["two pools"] = two
	made := base
	made.Trace, made.Synthetic = nil, loadgen.Synthetic{Requests: 20, Input: 300, Output: 9, Interval: 10, Turns: 1}
	all["synthetic"] = made
	return all
}

// report returns the report without the values that differ between runs.
func report(t *testing.T, r *harness.Result) string {
	t.Helper()
	var b bytes.Buffer
	r.Report.SetWall(1)
	if err := r.Report.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A replay on a workload that was opened before equals a normal replay.
func TestReplayIsRun(t *testing.T) {
	for name, spec := range specs() {
		direct, err := spec.Run(t.Context(), replay.Streams{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w, err := spec.Open(t.Context(), replay.Streams{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 2 {
			shared, err := spec.RunOn(t.Context(), w, replay.Streams{})
			if err != nil || report(t, shared) != report(t, direct) {
				t.Errorf("%s: %v; another report than that of Spec.Run", name, err)
			}
		}
	}
}

// A resample has as many sessions as the workload. Each is complete, in order, and has gaps of the workload. Only the
// private ids of a session are renamed, and only in copies.
func TestResample(t *testing.T) {
	w := &loadgen.Workload{Name: "made", TraceBlock: 64}
	for s := range int32(50) {
		w.Sessions = append(w.Sessions, loadgen.Session{First: 2 * s, Turns: 2, HasArrival: true})
		w.Sessions[s].Arrival = sim.Time(s*s) * 10
		shared := uint64(s % 7)
		own := 100 + uint64(s)
		w.Priorities = append(w.Priorities, s, -s)
		w.Turns = append(w.Turns,
			loadgen.Turn{Session: s, Index: 0, Next: 2*s + 1, Input: 100, Output: s + 1, IDs: []uint64{shared, own}},
			loadgen.Turn{Session: s, Index: 1, Next: -1, Input: 160, Output: 3, IDs: []uint64{shared, own, 1000 + uint64(s)}})
	}
	r := NewResampler(w, 7)
	if r.Sample(0) != w {
		t.Error("the 0-th resample is another workload")
	}
	a, again, b := r.Sample(1), NewResampler(w, 7).Sample(1), r.Sample(2)
	if !reflect.DeepEqual(a, again) || reflect.DeepEqual(a, b) {
		t.Error("resamples of one number differ, or of two are the same")
	}
	seen, copies := map[int]int{}, 0
	for i := range a.Sessions {
		s := &a.Sessions[i]
		if i > 0 {
			// The gaps are 10, 30, 50, … 970 ms.
			if gap := s.Arrival - a.Sessions[i-1].Arrival; gap < 10 || gap > 970 || int(gap)%20 != 10 {
				t.Errorf("session %d comes %v ms after the one before", i, gap)
			}
		}
		first, second := &a.Turns[s.First], &a.Turns[a.Turns[s.First].Next]
		if s.Turns != 2 || first.Session != int32(i) || second.Session != int32(i) || second.Next != -1 || !slices.Equal(first.IDs, second.IDs[:2]) {
			t.Fatalf("session %d is not whole: %+v %+v", i, first, second)
		}
		from := int(first.Output) - 1 // tells which one it was
		if p, q := a.PriorityOf(s.First), a.PriorityOf(a.Turns[s.First].Next); p != int32(from) || q != -p {
			t.Errorf("session %d: priorities %d and %d, want %d and its negative", i, p, q, from)
		}
		if first.IDs[0] != uint64(from%7) {
			t.Errorf("session %d: shared id became %d", i, first.IDs[0])
		}
		renamed := first.IDs[1] != 100+uint64(from)
		if renamed != (seen[from] > 0) || renamed && first.IDs[1] <= 1049 {
			t.Errorf("session %d, copy %d: own id is %d", i, seen[from], first.IDs[1])
		}
		if seen[from]++; seen[from] > 1 {
			copies++
		}
	}
	if len(a.Sessions) != 50 || copies < 5 {
		t.Errorf("%d sessions with %d copies, want 50 with some", len(a.Sessions), copies)
	}
}
