package frontend_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/frontend"
)

// writes is a response recorder that keeps each write.
type writes struct {
	*httptest.ResponseRecorder
	all []string
}

func (w *writes) Write(b []byte) (int, error) {
	w.all = append(w.all, string(b))
	return w.ResponseRecorder.Write(b)
}

// Tokens that are ready are sent to the client in one write, before the handler waits for the next token.
func TestReadyEventsShareAWrite(t *testing.T) {
	more := []bool{false, true, true, false, true, false}
	target := &fake{answer: func(_ context.Context, _ cancel.Context, _ *engine.Request, yield func(*engine.Chunk, error) bool) {
		for i, m := range more {
			c := &engine.Chunk{TokenIDs: []uint32{uint32(1000 + i)}, More: m}
			if i == len(more)-1 {
				c.FinishReason = engine.FinishLength
			}
			if !yield(c, nil) {
				return
			}
		}
	}}
	s, err := frontend.New(frontend.Config{Models: models{{Name: "m", Instances: 1, Target: target}}})
	if err != nil {
		t.Fatal(err)
	}
	w := &writes{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(`{"model":"m","prompt":[1],"max_tokens":6,"stream":true}`))
	s.Handler().ServeHTTP(w, r)
	var events []int
	for _, one := range w.all {
		events = append(events, strings.Count(one, "data: "))
	}
	if len(events) != 4 || events[0] != 1 || events[1] != 3 || events[2] != 2 || events[3] != 1 {
		t.Errorf("events of each write: %v, want [1 3 2 1]: %q", events, w.all)
	}
}
