package reference_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/blocks"
	"github.com/replay-llm/replay/scheduler/schedulertest"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm/reference"
	"github.com/replay-llm/replay/sim/prompt"
)

// flat is a model with constant durations of the two parts.
type flat struct{ prefill, decode float64 }

func (f flat) Prefill(int, int, int) float64     { return f.prefill }
func (f flat) Decode(int, int, int, int) float64 { return f.decode }
func (flat) ByContext() bool                     { return false }

// TestOffloadWorked is an example calculated by hand. The device has six blocks of 4 tokens, and a link copies one
// block per ms. Prefill takes 10 ms, and decode takes 2 ms.
//
// Request 0 leaves its blocks 1-4 cached. Request 1 gets two free blocks and evicts 4 and 3. Request 1 computes half
// of its prompt, and the other half after 4 and 3 are copied. The token of request 1 needs a fifth block: 2 is
// copied, and the request is preempted for one pass. Request 2 finds block 1 on the device and 2-4 in host memory.
// Request 2 waits for free blocks (8 and 7 are copied, 2 ms), then for the fetch of its blocks (3 ms). Then request 2
// is preempted for one pass while 6 is copied to free a block for its token (1 ms).
func TestOffloadWorked(t *testing.T) {
	const want = `
0-12: admit 0 (0, 0 from host); stored 1 2 3 4; last 0
100-110: admit 1 (0, 0 from host); stored 5 6; removed 4 3
110-120: host stored 3>4; host stored 2>3; stored 6>7 8; removed 2; 1 preempted
120-122: admit 1 (16, 0 from host); host stored 1>2; last 1
200-202: removed 8 7
202-205: host stored 7>8; host stored 6>7
205-206: admit 2 (16, 12 from host); stored 1>2 3 4; removed 6; 1 preempted
206-208: admit 2 (16, 12 from host); host stored 5>6; last 2
`
	a, b := sequence(1, 4), sequence(5, 8)
	arrivals, tree := arrivals([]line{{0, 16, 1, a}, {100, 16, 1, b}, {200, 16, 1, a}}, 4, 4, prompt.Options{})
	config := plain(4)
	config.Tree, config.Blocks, config.Capture = tree, 6, scheduler.CaptureEvents
	config.Clock = timing.Clock{Model: flat{10, 2}, Speedup: 1, DecodeSpeedup: 1}
	config.Offload = blocks.Offload{Blocks: 100, BytesPerToken: 1, BatchBlocks: 32, ToHostGBPerSecond: 4e-6, ToGPUGBPerSecond: 4e-6}
	var got strings.Builder
	names := hashNames(tree)
	err := schedulertest.Replay(reference.New(config), arrivals, schedulertest.UntilArrival, func(s schedulertest.Step) error {
		fmt.Fprintf(&got, "%v-%v: %s\n", s.Start, s.End, strings.Join(transcript(s, names), "; "))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := "\n" + got.String(); got != want {
		t.Errorf("got%swant%s", got, want)
	}
}

// hashNames numbers the blocks of a tree from 1 in order of their nodes.
func hashNames(tree *prompt.Tree) map[uint64]int {
	names := make(map[uint64]int)
	for n := range prompt.NodeID(tree.Len()) {
		for k := range int(tree.Size(n)) {
			names[tree.SequenceHash(n, k)] = len(names) + 1
		}
	}
	return names
}

// transcript describes a pass: admissions, events, preemptions, and last tokens.
func transcript(s schedulertest.Step, names map[uint64]int) (out []string) {
	for _, a := range s.Admitted {
		out = append(out, fmt.Sprintf("admit %d (%d, %d from host)", a.Request, a.Reused, a.FromHost))
	}
	for _, e := range s.Events {
		out = append(out, eventLine(e, names))
	}
	if s.Preempted > 0 {
		out = append(out, fmt.Sprintf("%d preempted", s.Preempted))
	}
	for _, m := range s.Marks {
		if m.Last {
			out = append(out, fmt.Sprintf("last %d", m.Request))
		}
	}
	return out
}

func eventLine(e scheduler.KVEvent, names map[uint64]int) string {
	var b strings.Builder
	if e.Tier == scheduler.HostPinned {
		b.WriteString("host ")
	}
	if len(e.Removed) > 0 {
		b.WriteString("removed")
		for _, h := range e.Removed {
			fmt.Fprintf(&b, " %d", names[h])
		}
		return b.String()
	}
	b.WriteString("stored ")
	if e.HasParent {
		fmt.Fprintf(&b, "%d>", names[e.Parent])
	}
	for i, k := range e.Stored {
		if i > 0 {
			b.WriteString(" ")
		}
		fmt.Fprintf(&b, "%d", names[k.Seq])
	}
	return b.String()
}
