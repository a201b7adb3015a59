package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/reference"
	"github.com/replay-llm/replay/tools/draw"
)

// A schedule runs with this program, and a second run sees the same values.
func TestSchedule(t *testing.T) {
	states, reports := 0, 0
	for seed := uint64(9); seed < 400; seed += 10 {
		w := draw.New(seed)
		if w.Plan == nil || !w.Tags.Has("scaling") {
			t.Fatalf("seed %d has no schedule: %v", seed, w.Tags)
		}
		if w.Profile != nil || w.Tags.Has("long") {
			continue
		}
		p := *w.Plan
		p.Trace = filepath.Join(t.TempDir(), "t.jsonl")
		if err := os.WriteFile(p.Trace, []byte(w.Trace), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := runSchedule(t.Context(), &p)
		if err != nil {
			t.Fatal(err)
		}
		b, err := runSchedule(t.Context(), &p)
		if err != nil || a.failed() != b.failed() || a.why != b.why {
			t.Errorf("seed %d: %v, then %v, %v", seed, a, b, err)
		}
		if a.failed() {
			continue
		}
		reports++
		states += len(a.seen)
		if d := compareOutcomes(a, b); len(d) > 0 {
			t.Errorf("seed %d: %s", seed, describeDiffs(d))
		}
	}
	if reports < 20 || states < 100 {
		t.Errorf("%d reports and %d states, want more", reports, states)
	}
}

// Differences are found at every position of a JSON value.
func TestDifferences(t *testing.T) {
	const text = `[{"now_ms":1,"is_done":false,"passes":[{"a":1},{"a":2,"b":null}]},{"num_req":3}]`
	for _, c := range []struct{ from, to, place string }{
		{`"now_ms":1`, `"now_ms":1.5`, "[0].now_ms"},
		{"false", "true", "[0].is_done"},
		{`"a":2`, `"a":3`, "[0].passes[1].a"},
		{`,"b":null`, "", "[0].passes[1]"},
		{`{"a":1},`, "", "[0].passes"},
		{`,{"num_req":3}`, "", ""},
		{"null", "0", "[0].passes[1].b"},
		{`"num_req"`, `"reqs"`, "[1].num_req"},
	} {
		a, b := decoded(t, text), decoded(t, strings.Replace(text, c.from, c.to, 1))
		if d := diffValues("", a, b); len(d) != 1 || d[0].Place != c.place {
			t.Errorf("%s for %s: %v, want one at %q", c.to, c.from, d, c.place)
		}
		if d := diffValues("", a, decoded(t, text)); d != nil {
			t.Errorf("the same twice: %v", d)
		}
	}
}

// forgivePasses removes only the differences that cannot be avoided. Differences in neighboring fields remain.
func TestForgive(t *testing.T) {
	pass := map[string]any{
		"num_queued_decode": 1., "sum_queued_decode_kv_tokens": 10., "var_queued_decode_kv_tokens": 0.,
		"var_prefill_length": 3., "var_decode_kv_tokens": 8., "wall_time": 1.,
	}
	for _, c := range []struct {
		key   string
		value float64
		want  int // number of remaining differences
	}{
		{"num_queued_decode", 2, 0}, {"num_queued_decode", 0, 1}, {"sum_queued_decode_kv_tokens", 11, 1},
		{"var_prefill_length", 3 + 1e-14, 0}, {"var_decode_kv_tokens", 8.001, 1}, {"wall_time", 1 + 1e-14, 1},
	} {
		ours := []any{map[string]any{"decode_fpm_snapshots": []any{pass}}}
		ref := decoded(t, encoded(t, ours)).([]any)
		ref[0].(map[string]any)["decode_fpm_snapshots"].([]any)[0].(map[string]any)[c.key] = c.value
		forgivePasses(ref, ours)
		var d []reference.Diff
		if d = diffValues("", ref, ours); len(d) != c.want {
			t.Errorf("%s is %v: %v, want %d differences", c.key, c.value, d, c.want)
		}
	}
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if again := decoded(t, string(text)); !reflect.DeepEqual(again, v) {
		t.Fatalf("%v comes back as %v", v, again)
	}
	return string(text)
}
