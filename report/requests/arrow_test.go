package requests

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/loadgen/formats/frames"
)

// readObjects reads lines of JSON and drops members that are null.
func readObjects(t *testing.T, in io.Reader) (all []map[string]any) {
	d := json.NewDecoder(in)
	d.UseNumber()
	for d.More() {
		var row map[string]any
		if err := d.Decode(&row); err != nil {
			t.Fatal(err)
		}
		maps.DeleteFunc(row, func(_ string, v any) bool { return v == nil })
		for name, v := range row {
			if n, ok := v.(json.Number); ok {
				row[name], _ = n.Float64()
			}
		}
		all = append(all, row)
	}
	return all
}

// An Arrow stream has the rows of the file of JSON lines, as read by the reader of traces.
func TestArrow(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 3000} {
		rows := random(n)
		var stream, lines bytes.Buffer
		to := NewWriter(&stream, Arrow)
		for i := range rows {
			if err := to.Add(&rows[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		if err := Write(&lines, JSONL, rows); err != nil {
			t.Fatal(err)
		}
		kind := frames.KindOf(stream.Bytes())
		in, err := frames.Open(kind, bytes.NewReader(stream.Bytes()), int64(stream.Len()))
		if err != nil {
			t.Fatal(kind, err)
		}
		if got, want := readObjects(t, in), readObjects(t, &lines); len(got) != n || !reflect.DeepEqual(got, want) {
			t.Errorf("%d rows: %d, or other ones", n, len(got))
			for i := range min(3, len(got), len(want)) {
				t.Errorf("%v\nwant %v", got[i], want[i])
			}
		}
	}
}
