package entries

import "github.com/replay-llm/replay/loadgen/formats/scan"

// Guide is a request of a report of GuideLLM. Releases before 0.5 have first_iteration and last_iteration, those before
// 0.4 have all in the row.
type Guide struct {
	*scan.Fields
	Info  *scan.Fields
	times *scan.Fields
}

// ReadGuide reads a row.
func ReadGuide(f *scan.Fields) *Guide {
	info := f.OpenSub("info")
	return &Guide{f, info, info.OpenSub("timings")}
}

// Input returns where the tokens of the prompt are.
func (g *Guide) Input() (f *scan.Fields, key string) {
	return g.tokens("input_metrics", "prompt_tokens")
}

// Output returns where the tokens of the answer are.
func (g *Guide) Output() (f *scan.Fields, key string) {
	return g.tokens("output_metrics", "output_tokens")
}

func (g *Guide) tokens(metrics, old string) (*scan.Fields, string) {
	if m := g.OpenSub(metrics); m.Has("text_tokens") || g.Value(old) == nil {
		return m, "text_tokens"
	}
	return g.Fields, old
}

// Instant returns where an instant in s since 1970 is: in the timings, by one of several keys, or in the row of an old release.
func (g *Guide) Instant(old string, keys ...string) (f *scan.Fields, key string) {
	for _, key := range keys {
		if g.times.Value(key) != nil {
			return g.times, key
		}
	}
	if g.Value(old) != nil {
		return g.Fields, old
	}
	return g.times, keys[0]
}

// Start returns where the instant is at which the request was sent.
func (g *Guide) Start() (f *scan.Fields, key string) { return g.Instant("start_time", "request_start") }

// Times returns the instants at which the request was sent, and its first and last token came; NaN where they are not told.
func (g *Guide) Times() (start, first, last float64) {
	start = numberOr(g.Start())
	first = numberOr(g.Instant("first_token_time", "first_token_iteration", "first_iteration"))
	return start, first, numberOr(g.Instant("last_token_time", "last_token_iteration", "last_iteration"))
}
