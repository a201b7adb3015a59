package main

import "testing"

// The search may use at most 5 % of the replays of the exhaustive plans, over all questions.
func TestReplaysAreJudged(t *testing.T) {
	for searched, want := range map[int]bool{0: true, 50: true, 51: false, 1000: false} {
		if text, ok := judgeReplays(1000, searched, true); ok != want {
			t.Errorf("%d of 1000 replays: %v, want %v: %s", searched, ok, want, text)
		}
		if text, ok := judgeReplays(1000, searched, false); !ok {
			t.Errorf("%d of 1000 replays of some questions are judged: %s", searched, text)
		}
	}
}
