package measure_test

import (
	"testing"
	"time"

	"github.com/replay-llm/replay/live/measure"
)

// Each piece with text counts as a token, and so does an answer of one token without text.
func TestTokensOfAnswers(t *testing.T) {
	const usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"
	for name, c := range map[string]struct {
		text   string
		pieces int
	}{
		"text":                    {"data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\ndata: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n" + usage, 1},
		"one token without text":  {"data: {\"choices\":[{\"index\":0,\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n" + usage, 1},
		"a chat of one":           {"data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\"},\"finish_reason\":\"length\"}]}\n\n" + usage, 1},
		"nobody counted":          {"data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", 0},
		"half a character before": {"data: {\"choices\":[{\"text\":\"\",\"finish_reason\":null}]}\n\n" + usage, 1},
	} {
		began := time.Now()
		for _, size := range []int{1, 7, len(c.text)} { // for any split of the bytes
			a := measure.NewAnswer(true)
			for at := 0; at < len(c.text); at += size {
				a.AddBytes(began.Add(time.Duration(at)), []byte(c.text[at:min(at+size, len(c.text))]))
			}
			if a.End(); a.Pieces != c.pieces || !a.Done || a.First.IsZero() != (c.pieces == 0) || a.Last != a.First {
				t.Errorf("%s, %d bytes at a time: %d pieces, want %d; %+v", name, size, a.Pieces, c.pieces, a)
			}
		}
	}
}
