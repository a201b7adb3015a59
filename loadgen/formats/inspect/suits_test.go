package inspect

import (
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats"
)

// Suits returns the expected commands for each kind of trace.
func TestSuits(t *testing.T) {
	rows := `{"timestamp":0,"input_length":1024,"output_length":2,"hash_ids":[1,2]}
{"timestamp":100,"input_length":1024,"output_length":2,"hash_ids":[1,3]}
`
	estimated := formats.Options{LeftOpen: formats.LeftOpen{TokensPerByte: 0.5, OutputTokens: 5}}
	for _, c := range []struct {
		text string
		o    formats.Options
		want string
	}{
		{rows, formats.Options{}, "trace FILE --workers 4 --router kv"},
		{strings.Replace(rows, "[1,3]", "[4,5]", 1), formats.Options{}, "trace FILE --workers 4 --router least-loaded"},
		{`{"timestamp":0,"input_length":10,"output_length":2}`, formats.Options{}, "trace FILE --assume-prefix groups:10:0.5"},
		{`{"prompt":"some text"}`, estimated, "concurrency FILE --tokens-per-byte 0.25 --max-in-flight 8"},
		{`{"request_throughput":2.0,"input_lens":[12,30],"output_lens":[4,1],"start_times":[10.0,10.5]}`, formats.Options{}, "concurrency FILE --max-in-flight 8"},
	} {
		if got := summary(t, c.text, c.o).Suits(); !slices.Contains(got, "replay "+c.want) {
			t.Errorf("%s: %q, want %s", c.text, got, c.want)
		}
	}
}
