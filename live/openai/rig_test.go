package openai_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/openai"
)

// drawing is an engine that draws words from the seed and the prompt.
type drawing struct {
	script  []uint32     // tokens that the engine generates repeatedly, if any
	batch   int          // tokens per chunk; default 1
	stopped atomic.Int32 // number of requests that were stopped before their end
	asked   atomic.Int32
}

func (d *drawing) Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, _ map[string]string) (iter.Seq2[*engine.Chunk, error], error) {
	d.asked.Add(1)
	var options struct {
		Seed int64 `json:"seed"`
	}
	if rq.SamplingOptions != nil {
		if err := json.Unmarshal(rq.SamplingOptions, &options); err != nil {
			return nil, err
		}
	}
	n, why := int(rq.MaxTokens(16)), engine.FinishLength
	if rq.StopConditions.MaxTokens == nil {
		why = engine.FinishEOS
	}
	token := func(i int) uint32 {
		if len(d.script) > 0 {
			return d.script[i%len(d.script)]
		}
		return 1000 + (uint32(options.Seed)*31+uint32(len(rq.TokenIDs))*7+uint32(i)*13)%1000
	}
	return func(yield func(*engine.Chunk, error) bool) {
		for i := 0; i < n; {
			c := &engine.Chunk{}
			for range min(max(1, d.batch), n-i) {
				c.TokenIDs = append(c.TokenIDs, token(i))
				i++
			}
			switch {
			case rc.IsStopped():
				d.stopped.Add(1)
				c.TokenIDs, c.FinishReason = nil, engine.FinishCancelled
				i = n
			case i == n:
				c.FinishReason = why
			}
			if c.FinishReason != "" {
				c.CompletionUsage = engine.NewUsage(uint32(len(rq.TokenIDs)), uint32(n))
			}
			if !yield(c, nil) {
				return
			}
		}
	}, nil
}

// serve answers a request for the model tiny, which has a context of 512 tokens.
func serve(t *testing.T, kind openai.Kind, body []byte, target engine.Target) (string, error) {
	t.Helper()
	rq, err := openai.Parse(kind, body, openai.Tokenize)
	if err != nil {
		return "", err
	}
	if rq.Model != "" && rq.Model != "tiny" {
		return "", openai.UnknownModel(rq.Model, []string{"tiny"})
	}
	if err := rq.Fit(512); err != nil {
		return "", err
	}
	began := time.UnixMilli(1700000000000)
	a := openai.NewAnswer(rq, "0b0f63c6-63e0-4e93-b2a7-5e3f5ac8a8a0", "tiny", began, began)
	var text strings.Builder
	say := func(event []byte) {
		if len(event) > 0 {
			text.WriteString("data: " + string(event) + "\n\n")
		}
	}
	if rq.Stream {
		for _, e := range a.Openings() {
			say(e)
		}
	}
	for p, err := range a.Generate(context.Background(), cancel.New(""), target, nil) {
		if err != nil {
			return "", err
		}
		if rq.Stream {
			say(a.AppendPiece(nil, p))
		}
	}
	if !rq.Stream {
		return string(a.AppendWhole(nil)), nil
	}
	for _, e := range a.Closings() {
		say(e)
	}
	return text.String(), nil
}
