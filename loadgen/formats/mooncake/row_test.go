package mooncake

import (
	stdjson "encoding/json"
	"testing"

	gojson "github.com/replay-llm/replay/internal/json"
)

// BenchmarkRow compares the scanner with JSON libraries for a Mooncake row.
func BenchmarkRow(b *testing.B) {
	line := []byte(`{"timestamp":27482.25,"input_length":6758,"output_length":500,"hash_ids":[46,47,48,49,50,51,52,53,54,55,56,57,2353,2354]}`)
	type members struct {
		Timestamp *float64 `json:"timestamp"`
		Input     *int     `json:"input_length"`
		Output    *int     `json:"output_length"`
		IDs       []uint64 `json:"hash_ids"`
	}
	b.Run("scanner", func(b *testing.B) {
		m := row{block: 512}
		for b.Loop() {
			m.arena.Clear()
			if err := m.readLine(line); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding", func(b *testing.B) {
		var r members
		for b.Loop() {
			if err := stdjson.Unmarshal(line, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("goccy", func(b *testing.B) {
		var r members
		for b.Loop() {
			if err := gojson.Unmarshal(line, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
}
