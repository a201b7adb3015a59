package entries

import "github.com/replay-llm/replay/loadgen/formats/scan"

// Guide is a request in a GuideLLM report. Releases before 0.5 have the fields first_iteration and last_iteration. In
// releases before 0.4 all fields are in the row itself.
type Guide struct {
	*scan.Fields
	Info  *scan.Fields
	times *scan.Fields
}

// ReadGuide returns the request of a row.
func ReadGuide(f *scan.Fields) *Guide {
	info := f.OpenSub("info")
	return &Guide{f, info, info.OpenSub("timings")}
}

// Input returns the object and the key of the number of prompt tokens.
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

// Instant returns the object and the key of a time in s since 1970. The time is in the timings under one of keys. In
// old releases it is in the row under the key old.
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

// Start returns the object and the key of the time at which the request was sent.
func (g *Guide) Start() (f *scan.Fields, key string) { return g.Instant("start_time", "request_start") }

// Times returns the times of the request, of its first token and of its last token, in s since 1970. A missing time
// is NaN.
func (g *Guide) Times() (start, first, last float64) {
	start = numberOr(g.Start())
	first = numberOr(g.Instant("first_token_time", "first_token_iteration", "first_iteration"))
	return start, first, numberOr(g.Instant("last_token_time", "last_token_iteration", "last_iteration"))
}
