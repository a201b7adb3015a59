package engine_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/engine"
)

// AppendJSON and ParseChunk give the same results as a JSON library.
func TestChunkJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	text := "a\"b"
	for range 2000 {
		c := &engine.Chunk{}
		for range r.IntN(4) {
			c.TokenIDs = append(c.TokenIDs, r.Uint32()>>r.IntN(32))
		}
		switch r.IntN(6) {
		case 0:
			c.Text = &text
		case 1:
			c.FinishReason, c.CompletionUsage = engine.FinishLength, engine.NewUsage(1, 2)
		case 2:
			c.LogProbs = []float64{-0.5}
		}
		got, err := c.AppendJSON([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(c)
		if err != nil || string(got) != "before"+string(want) {
			t.Fatalf("%s, want %s (%v)", got, want, err)
		}
		var byLibrary engine.Chunk
		if err := json.Unmarshal(want, &byLibrary); err != nil {
			t.Fatal(err)
		}
		if back, err := engine.ParseChunk(want); err != nil || len(back.TokenIDs)+len(byLibrary.TokenIDs) > 0 && !reflect.DeepEqual(back, &byLibrary) {
			t.Fatalf("%s: %+v, want %+v (%v)", want, back, byLibrary, err)
		}
	}
}

// Chunks that resemble bare chunks of tokens are decoded like a JSON library decodes them.
func FuzzParseChunk(f *testing.F) {
	for _, seed := range []string{`{"token_ids":[1]}`, `{"token_ids":[01]}`, `{"token_ids":[1,]}`, `{"token_ids":[]}`, `{"token_ids":[4294967296]}`, `{"token_ids":[1],"x":[2]}`, `{"token_ids":[-1]}`, `{"token_ids":[1 ]}`, `{"token_ids":[00]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var want engine.Chunk
		wrong := json.Unmarshal(b, &want)
		got, err := engine.ParseChunk(b)
		if (err == nil) != (wrong == nil) {
			t.Errorf("%q: %v, want %v", b, err, wrong)
		}
		if err == nil && len(want.TokenIDs) > 0 && !reflect.DeepEqual(got.TokenIDs, want.TokenIDs) {
			t.Errorf("%q: %v, want %v", b, got.TokenIDs, want.TokenIDs)
		}
	})
}
