package registry

import (
	stdjson "encoding/json"
	"strings"
	"testing"

	gojson "github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/loadgen/formats"
)

// JSON libraries use the last of two members with the same name, and do not report the position of a value of a wrong
// type. A trace with such a row is rejected with its position.
func TestWhyAScanner(t *testing.T) {
	const (
		twice = `{"input_length":64,"output_length":1,"output_length":2,"hash_ids":[1]}`
		wrong = `{"input_length":64,"output_length":1,"hash_ids":[1,2,"x"]}`
	)
	for name, unmarshal := range map[string]func([]byte, any) error{
		"encoding/json": stdjson.Unmarshal,
		"goccy/go-json": gojson.Unmarshal,
	} {
		var row struct {
			Output int      `json:"output_length"`
			IDs    []uint64 `json:"hash_ids"`
		}
		if err := unmarshal([]byte(twice), &row); err != nil || row.Output != 2 {
			t.Errorf("%s: output %d, %v; the comment of the package says 2 and no error", name, row.Output, err)
		}
		err := unmarshal([]byte(wrong), &row)
		if err == nil || strings.Contains(err.Error(), "3") {
			t.Errorf("%s: %v; the comment of the package says that the place in the list is not told", name, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{twice, "day.jsonl:1: output_length is given twice"},
		{wrong, `day.jsonl:1: hash_ids is […, "x", …] at place 3, must be whole numbers >= 0`},
	} {
		if _, err := readTrace(c.text, formats.Options{}); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
