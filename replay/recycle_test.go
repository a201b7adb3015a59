package replay

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/offline"
)

// TestRecycleFindsRounds checks that a recycled replay has enough rounds, and that further rounds do not change it.
// TestRecycleFindsRounds uses sessions, conversations of a trace without session ids, and joins.
func TestRecycleFindsRounds(t *testing.T) {
	for _, file := range []string{"sessions.jsonl", "short.jsonl", "tasks.jsonl"} {
		s := twoRequests()
		s.Trace = &Trace{Path: filepath.Join("..", "testdata", "traces", file), Detect: true}
		s.Mode, s.MaxInFlight, s.Recycle = loadgen.Concurrency, 6, true
		w, err := s.Open(t.Context(), Streams{})
		if err != nil {
			t.Fatal(err)
		}
		plain := s
		plain.Recycle = false
		once, err := plain.RunOn(t.Context(), w, Streams{})
		if err != nil {
			t.Fatal(err)
		}
		end := once.Collector.LastArrival()
		s.Window = collector.Window{From: end / 2, To: 5*end + 1}
		var seen *loadgen.Workload
		got, err := s.RunOn(t.Context(), w, Streams{Opened: func(w *loadgen.Workload) { seen = w }})
		if err != nil {
			t.Fatal(err)
		}
		want, err := offline.Run(t.Context(), s.offlineConfig(loadgen.Recycle(w, 2*seen.Rounds), Streams{}))
		if err != nil {
			t.Fatal(err)
		}
		last := got.Collector.Records()[got.Collector.Len()-1]
		if round := seen.RoundOf(last.Session); round < 3 || got.RanOut {
			t.Errorf("%s: the last request is of round %d of %d, want some left", file, round, seen.Rounds)
		}
		if !slices.Equal(got.Collector.Records(), want.Collector.Records()) {
			t.Errorf("%s: with twice as many rounds something else happens", file)
		}
	}
}
