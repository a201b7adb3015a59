package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
)

func TestTracesAreAsWritten(t *testing.T) {
	for name, text := range makeTraces() {
		got, err := os.ReadFile(filepath.Join("../../testdata/traces", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, text) {
			t.Errorf("%s differs from what tracegen writes; run go generate ./loadgen", name)
		}
	}
}

// The chat hour has the expected number of requests, share of repeated blocks, and variation of the rate.
func TestChatHour(t *testing.T) {
	text := formatRows(newChat().makeHour())
	if len(text) > 700_000 {
		t.Errorf("%d bytes, want at most 700000", len(text))
	}
	w, err := registry.Read(bytes.NewReader(text), "chat-hour.jsonl", formats.Options{Format: formats.Mooncake, TraceBlock: blockTokens})
	if err != nil {
		t.Fatal(err)
	}
	seen, blocks, reused, input, output, perMinute := map[uint64]bool{}, 0, 0, 0, 0, [60]int{}
	for i, turn := range w.Turns {
		perMinute[int(w.Sessions[i].Arrival)/60_000]++
		input += int(turn.Input)
		output += int(turn.Output)
		for _, id := range turn.IDs {
			if seen[id] {
				reused++
			}
			seen[id] = true
			blocks++
		}
	}
	n := len(w.Turns)
	low, high := n, 0
	for _, k := range perMinute {
		low, high = min(low, k), max(high, k)
	}
	t.Logf("%d requests, %d bytes, mean input %d, mean output %d, %d%% of blocks seen before, %d to %d a minute",
		n, len(text), input/n, output/n, 100*reused/blocks, low, high)
	if n < 3000 || n > 4500 || 100*reused/blocks < 50 || high < 2*low {
		t.Error("want 3000 to 4500 requests, half of the blocks seen before, and some minutes twice as busy as others")
	}
	if strings.Contains(string(text), "session_id") {
		t.Error("want requests that arrive when they did")
	}
}
