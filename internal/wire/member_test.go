package wire_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/replay-llm/replay/internal/wire"
)

// Member returns the same object as a JSON library if it reports true.
func FuzzMember(f *testing.F) {
	for _, seed := range []string{
		`{"data":{"data":{"token_ids":[1,2]}},"complete_final":false}`, `{"data":{"a":"}"},"complete_final":false}`, `{"data":{"a":"\"}"},"x":{},"complete_final":false}`,
		`{"data":{},"complete_final":false}`, `{"data":{}},"complete_final":false}`, `{"data":{"a":[{}]},"complete_final":false}`, `{"data":{"a":"\\"},"complete_final":false}`, `{"data":1,"complete_final":false}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		object, ok := wire.Member(body, `{"data":`, `,"complete_final":false}`)
		if !ok || !json.Valid(body) {
			return
		}
		var part struct {
			Data  json.RawMessage `json:"data"`
			Final bool            `json:"complete_final"`
		}
		if err := json.Unmarshal(body, &part); err != nil || part.Final || !bytes.Equal(part.Data, object) {
			t.Errorf("%q: %q, want %q (%v)", body, object, part.Data, err)
		}
	})
}

// IsReady reports true when all bytes of a frame have arrived.
func TestReaderIsReady(t *testing.T) {
	frame := wire.NewPart(json.RawMessage(`{"data":{"token_ids":[1]}}`)).Append(nil)
	for more := range len(frame) + 1 {
		r := wire.NewReader(bytes.NewReader(append(bytes.Clone(frame), frame[:more]...)), 0)
		if r.IsReady() {
			t.Error("nothing was read, and a frame is ready")
		}
		if _, err := r.Read(); err != nil {
			t.Fatal(err)
		}
		if got, want := r.IsReady(), more == len(frame); got != want {
			t.Errorf("%d of %d bytes: ready is %v, want %v", more, len(frame), got, want)
		}
	}
}
