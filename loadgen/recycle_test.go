package loadgen_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/sim"
)

func readMooncake(t testing.TB, text string) *Workload {
	t.Helper()
	w, err := registry.Read(strings.NewReader(strings.TrimSpace(text)), "t.jsonl", formats.Options{Format: formats.Mooncake, TraceBlock: 10})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// blocksOf lists the sessions, turns and blocks of a workload.
func blocksOf(w *Workload) string {
	var b strings.Builder
	for i := range w.Turns {
		t := &w.Turns[i]
		fmt.Fprintf(&b, "%s/%d round %d next %d: %v\n", w.SessionID(int(t.Session)), t.Index, w.RoundOf(t.Session), t.Next, t.IDs)
	}
	return b.String()
}

// Blocks of a single session have new ids in each round. Blocks of two sessions keep their ids.
func TestRecycleRenewsBlocksOfOneSession(t *testing.T) {
	w := readMooncake(t, `
{"session_id": "a", "timestamp": 0, "input_length": 20, "output_length": 1, "hash_ids": [7, 1]}
{"session_id": "b", "timestamp": 1, "input_length": 20, "output_length": 1, "hash_ids": [7, 2]}
{"session_id": "a", "delay": 5, "input_length": 30, "output_length": 1, "hash_ids": [7, 1, 3]}
`)
	want := `
a/0 round 1 next 2: [7 1]
b/0 round 1 next -1: [7 2]
a/1 round 1 next -1: [7 1 3]
a#2/0 round 2 next 5: [7 0]
b#2/0 round 2 next -1: [7 4]
a#2/1 round 2 next -1: [7 0 5]
a#3/0 round 3 next 8: [7 6]
b#3/0 round 3 next -1: [7 8]
a#3/1 round 3 next -1: [7 6 9]
`
	if got := blocksOf(Recycle(w, 3)); got != want[1:] {
		t.Errorf("got\n%swant%s", got, want)
	}
}

// In a trace without sessions, prompts that extend each other are one conversation. Blocks 1 and 2 are only in this
// conversation. Prompts differ after block 7. The last block of each prompt is not full and not shared.
func TestRecycleTellsConversations(t *testing.T) {
	w := readMooncake(t, `
{"timestamp": 0, "input_length": 25, "output_length": 1, "hash_ids": [7, 1, 20]}
{"timestamp": 1, "input_length": 35, "output_length": 1, "hash_ids": [7, 1, 2, 21]}
{"timestamp": 2, "input_length": 20, "output_length": 1, "hash_ids": [7, 3]}
`)
	want := `
request_1#2/0 round 2 next -1: [7 0 4]
request_2#2/0 round 2 next -1: [7 0 5 6]
request_3#2/0 round 2 next -1: [7 8]
`
	if got := blocksOf(Recycle(w, 2)); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%swant it to end in%s", got, want)
	}
}

// A round begins when a request can be admitted and no other request is left. The sessions of the round are ready
// from the time at which it begins. After Stop no request arrives, even when a request ends.
func TestRecycledFeed(t *testing.T) {
	w := readMooncake(t, `
{"session_id": "a", "timestamp": 0, "input_length": 20, "output_length": 1, "hash_ids": [7, 1]}
{"session_id": "b", "timestamp": 1, "input_length": 20, "output_length": 1, "hash_ids": [7, 2]}
{"session_id": "a", "delay": 5, "input_length": 30, "output_length": 1, "hash_ids": [7, 1, 3]}
`)
	f := newTestFeed(t, Recycle(w, 4), Admission{Mode: Concurrency, MaxInFlight: 2, Stop: 40})
	script := `
take 0 0
end 0 10
next 10 1
take 10 1
end 1 15
next 15 1
take 15 1
end 2 20
take 20 1
end 3 30
take 30 1
end 4 39
next 39 1
take 40 1
next 40 1
done
end 5 45
done
`
	want := `take 0 0: 0 line 1/0@0 1 line 2/0@0
next 10 1: 10
take 10 1: 2 line 1/0@10
next 15 1: 15
take 15 1: 3 line 2/0@15
take 20 1: 4 line 3/1@20
take 30 1: 5 line 3/1@30
next 39 1: 39
take 40 1:
next 40 1: none
done: false
done: true
`
	if got := transcript(t, f, strings.TrimSpace(script)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// All rounds of a graph equal the first round, and no round waits for another round.
func TestRecycleGraph(t *testing.T) {
	g := &Graph{First: []int32{0, 0, 1, 3}, Waits: []Wait{{For: 0}, {For: 0, Delay: 2}, {For: 1, Start: true}}, Arrival: make([]sim.Time, 3)}
	w := &Workload{
		TraceBlock: 10, Graph: g, Sessions: []Session{{ID: "task", First: 0, Turns: 3}},
		Turns: []Turn{
			{Index: 0, Next: 1, Input: 10, Output: 1, IDs: []uint64{1}}, {Index: 1, Next: 2, Input: 10, Output: 1, IDs: []uint64{1}},
			{Index: 2, Next: -1, Input: 10, Output: 1, IDs: []uint64{2}},
		},
	}
	all := Recycle(w, 3)
	for turn := range int32(9) {
		want := slices.Clone(g.WaitsOf(turn % 3))
		for i := range want {
			want[i].For += turn / 3 * 3
		}
		if got := all.Graph.WaitsOf(turn); !slices.Equal(got, want) {
			t.Errorf("turn %d waits for %+v, want %+v", turn, got, want)
		}
	}
	f := newTestFeed(t, all, Admission{Mode: Concurrency, MaxInFlight: 3, Stop: 1000})
	got := transcript(t, f, "take 0 0\nend 0 10\ntake 10 2\ndone")
	if want := "take 0 0: 0 line 0/0@0 1 line 0/0@0 2 line 0/0@0\ntake 10 2: 3 line 0/1@10\ndone: false\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Workloads with prompts without ids can be recycled.
func TestRecycleSynthetic(t *testing.T) {
	w, err := NewSynthetic(Synthetic{Requests: 3, Input: 64, Output: 2, Block: 16})
	if err != nil {
		t.Fatal(err)
	}
	if again := Recycle(w, 2); len(again.Turns) != 6 || !again.Synthetic {
		t.Errorf("%d turns, synthetic %v, want 6 of prompts without ids", len(again.Turns), again.Synthetic)
	}
}
