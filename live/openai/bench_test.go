package openai_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/openai"
)

// BenchmarkParse measures Parse with a chat of about 2,000 tokens.
func BenchmarkParse(b *testing.B) {
	text := strings.Repeat("It was a bright morning when the committee finally agreed on the budget for next year. ", 110)
	body := []byte(`{"model":"tiny","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"` + text + `"}],"max_tokens":100,"stream":true,"stream_options":{"include_usage":true},"temperature":0.7}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := openai.Parse(openai.Chat, body, openai.Tokenize); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStream measures the writing of events with one token each.
func BenchmarkStream(b *testing.B) {
	rq, err := openai.Parse(openai.Chat, []byte(`{"model":"tiny","messages":[{"role":"user","content":"x"}],"max_tokens":1000,"stream":true}`), openai.Tokenize)
	if err == nil {
		err = rq.Fit(8192)
	}
	if err != nil {
		b.Fatal(err)
	}
	d := &drawing{}
	b.ReportAllocs()
	events, event := 0, []byte(nil)
	for b.Loop() {
		if events++; events%1000 != 1 {
			continue
		}
		a := openai.NewAnswer(rq, "id", "tiny", time.Now(), time.Now())
		for p, err := range a.Generate(context.Background(), cancel.New(""), d, nil) {
			if err != nil {
				b.Fatal(err)
			}
			event = a.AppendPiece(event[:0], p)
		}
	}
}
