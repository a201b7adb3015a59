package mocker

import (
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/conformance"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/replay/engineargs"
)

// recordedRequests returns the prompts and answer lengths of the requests behind live/kvevents/testdata/recorded.txt.
func recordedRequests() (prompts [][]uint32, limits []uint32) {
	draw := func(a, n uint32) (list []uint32) {
		for i := range n {
			list = append(list, (a*131+i*7)%1990)
		}
		return list
	}
	a := draw(1, 40)
	b := append(slices.Clone(a[:32]), draw(2, 20)...)
	return [][]uint32{a, b, draw(3, 17), a, draw(4, 150), draw(5, 200), b, draw(6, 100), a},
		[]uint32{30, 4, 40, 2, 20, 5, 20, 10, 30}
}

// recordedBatches returns the batches that vLLM published for recordedRequests.
func recordedBatches(t *testing.T, release string) (list []kvevents.Batch) {
	t.Helper()
	text, err := os.ReadFile("../kvevents/testdata/recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] != release || f[1] != "batch" {
			continue
		}
		payload, err := hex.DecodeString(f[2])
		if err != nil {
			t.Fatal(err)
		}
		b, err := kvevents.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// plainly formats each batch as a line, in which blocks are numbered by their first appearance. plainly returns the
// tokens of the events separately.
func plainly(batches []kvevents.Batch) (lines []string, tokens []uint32) {
	names := map[uint64]int{}
	name := func(h uint64) int {
		if _, ok := names[h]; !ok {
			names[h] = len(names)
		}
		return names[h]
	}
	for _, b := range batches {
		var line strings.Builder
		fmt.Fprintf(&line, "rank %d:", b.Rank)
		for i := range b.Events {
			e := &b.Events[i]
			fmt.Fprintf(&line, " %v", e.Kind)
			for _, h := range e.Blocks {
				fmt.Fprintf(&line, " b%d", name(h))
			}
			if e.HasParent {
				fmt.Fprintf(&line, " after b%d", name(e.Parent))
			}
			fmt.Fprintf(&line, " %s %d %s group %v %d tokens,", e.Medium, e.BlockTokens, e.CacheKind, e.HasGroup, len(e.Tokens))
			tokens = append(tokens, e.Tokens...)
		}
		lines = append(lines, line.String())
	}
	return lines, tokens
}

// For the recorded requests, a mocker publishes the batches that both releases of vLLM published: the same events,
// blocks, parents and prompt tokens. Block names and answer tokens differ.
func TestRecordedRequests(t *testing.T) {
	for release, profile := range map[string]string{"0.19.1": "vllm-0.19", "0.33.0": "vllm-0.33"} {
		layout, err := kvevents.LayoutOf(release)
		if err != nil {
			t.Fatal(err)
		}
		a, err := engineargs.Parse([]byte(fmt.Sprintf(`{"scheduler_profile": %q, "block_size": 16, "num_gpu_blocks": 24, "max_num_seqs": 8, "speedup_ratio": 20}`, profile)), engineargs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := start(t, Options{Engine: a, KVSockets: &kvevents.TeeOptions{
			Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0", Topic: "kv@pod@m", Layout: layout,
		}})
		var mu sync.Mutex
		var got []kvevents.Batch
		at := e.Source()
		s, err := kvevents.Subscribe(kvevents.SubscriberOptions{Events: at.Events, Replay: at.Replay, Topic: at.Topic, Observe: func(r kvevents.Received) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, r.Batch)
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		prompts, limits := recordedRequests()
		made := map[uint32]bool{}
		for i, tokens := range prompts {
			given, _, err := answer(e, ask(tokens, limits[i]), conformance.MockContext(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, token := range given {
				made[token] = true
			}
			drained(t, e)
		}
		want := recordedBatches(t, release)
		poll.Until(t, "all batches", func() bool { return s.Stats().Next >= max(e.tee.Stats().Published, uint64(len(want))) })
		mu.Lock()
		defer mu.Unlock()
		sameBatches(t, release, got, want, made)
	}
}

// sameBatches compares batches. made has the tokens of the mocker's answers.
func sameBatches(t *testing.T, release string, got, want []kvevents.Batch, made map[uint32]bool) {
	t.Helper()
	mine, ourTokens := plainly(got)
	theirs, theirTokens := plainly(want)
	for i := range max(len(mine), len(theirs)) {
		x, y := "nothing", "nothing"
		if i < len(mine) {
			x = mine[i]
		}
		if i < len(theirs) {
			y = theirs[i]
		}
		if x != y {
			t.Errorf("%s, batch %d:\n%s, want\n%s", release, i, x, y)
		}
	}
	_, limits := recordedRequests()
	isTheirs := func(token uint32) bool { // token n of the answer to request i is 100 (i+1) + n in the recording
		i := int(token)/100 - 1
		return i >= 0 && i < len(limits) && token%100 >= 1 && token%100 <= limits[i]
	}
	drawn := 0
	for i := range min(len(ourTokens), len(theirTokens)) {
		x, y := ourTokens[i], theirTokens[i]
		if x == y {
			continue
		}
		if drawn++; !made[x] || !isTheirs(y) {
			t.Fatalf("%s: token %d is %d, want %d", release, i, x, y)
		}
	}
	if drawn == 0 || drawn > len(theirTokens)/2 {
		t.Errorf("%s: %d of %d tokens are of answers", release, drawn, len(theirTokens))
	}
}
