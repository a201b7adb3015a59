package row_test

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/tools/benchpeer/row"
)

const short = `{"timestamp": 1.5, "input_length": 600, "output_length": 7, "hash_ids": [0, 2]}
{"session_id": "a", "timestamp": 10, "input_length": 3, "output_length": 1, "hash_ids": [1]}

{"session_id": "a", "delay": 2.50, "input_length": 512, "output_length": 4, "hash_ids": [4]}
`

func tile(t *testing.T, text string, requests int) string {
	t.Helper()
	var out bytes.Buffer
	if err := row.Tile(&out, strings.NewReader(text), "short.jsonl", requests); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Each copy has separate times, ids and sessions. The last copy is cut. The period is the last arrival and a mean
// gap: 10 + 10/1.
func TestWrite(t *testing.T) {
	want := `{"timestamp":1.5,"input_length":600,"output_length":7,"hash_ids":[0,2]}
{"session_id":"a","timestamp":10,"input_length":3,"output_length":1,"hash_ids":[1]}
{"session_id":"a","delay":2.5,"input_length":512,"output_length":4,"hash_ids":[4]}
{"timestamp":21.5,"input_length":600,"output_length":7,"hash_ids":[5,7]}
{"session_id":"a+1","timestamp":30,"input_length":3,"output_length":1,"hash_ids":[6]}
{"session_id":"a+1","delay":2.5,"input_length":512,"output_length":4,"hash_ids":[9]}
{"timestamp":41.5,"input_length":600,"output_length":7,"hash_ids":[10,12]}
`
	if got := tile(t, short, 7); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// A long trace has the same turns as the short trace in each copy.
func TestWriteRepeatsSessions(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/traces/sessions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	load := func(requests int) *loadgen.Workload {
		in := strings.NewReader(tile(t, string(text), requests))
		w, err := registry.Read(in, "tiled", formats.Options{Format: formats.Mooncake, TraceBlock: 512})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	one, three := load(913), load(3*913)
	if len(one.Turns) != 913 || len(three.Turns) != 3*913 || len(three.Sessions) != 3*len(one.Sessions) {
		t.Fatalf("%d turns of %d sessions, three times as much has %d of %d",
			len(one.Turns), len(one.Sessions), len(three.Turns), len(three.Sessions))
	}
	for i := range three.Turns {
		a, b := &one.Turns[i%913], &three.Turns[i]
		if a.Input != b.Input || a.Output != b.Output || a.Delay != b.Delay || a.Index != b.Index || len(a.IDs) != len(b.IDs) {
			t.Fatalf("turn %d is %+v, want it like %+v", i, b, a)
		}
	}
	for i := len(one.Sessions); i < len(three.Sessions); i++ {
		before, s := &three.Sessions[i-len(one.Sessions)], &three.Sessions[i]
		if period := s.Arrival - before.Arrival; math.Abs(float64(period-(three.Sessions[len(one.Sessions)].Arrival-one.Sessions[0].Arrival))) > 1e-6 {
			t.Fatalf("session %q comes %v ms after %q", s.ID, period, before.ID)
		}
	}
}

func TestRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "short.jsonl: no requests",
		"{\"input_length\":": "short.jsonl:1: ",
		`{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [4000000000]}`: "2 copies with 4000000001 hash ids each, must be at most 4294967296 ids",
	} {
		if err := row.Tile(&bytes.Buffer{}, strings.NewReader(text), "short.jsonl", 2); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
