package explore_test

import (
	"context"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/explore"
	"github.com/replay-llm/replay/internal/json"
)

// BenchmarkRun answers the question that the explorer asks after each change of a setting.
func BenchmarkRun(b *testing.B) {
	const trace = "../../../testdata/traces/chat-hour.jsonl"
	s := explore.New()
	if err := s.AddFile(trace); err != nil {
		b.Fatal(err)
	}
	settings := explore.Settings{"trace": trace, "gpu": "h100", "model": "llama-3.1-8b", "workers": "8", "router": "kv"}
	for b.Loop() {
		a, err := s.Run(context.Background(), settings)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(a); err != nil {
			b.Fatal(err)
		}
	}
}
