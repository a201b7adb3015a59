package deployment

import (
	"maps"
	"testing"
)

// TestAddPairs checks that only the pairs of the list itself are read, not those of nested objects.
func TestAddPairs(t *testing.T) {
	for _, c := range []struct {
		list, sign string
		want       map[string]string
	}{
		{`'model': '/m/a, b', 'speculative_config': {'method': 'eagle', 'model': 'draft'}, 'names': ['x', 'y'], 'enforce_eager': True`, ":",
			map[string]string{"model": "/m/a, b", "speculative_config": `{'method': 'eagle', 'model': 'draft'}`, "names": `['x', 'y']`, "enforce_eager": "True"}},
		{`model='m', speculative_config=SpeculativeConfig(method='eagle', model='draft'), seed=0, odd`, "=",
			map[string]string{"model": "m", "speculative_config": `SpeculativeConfig(method='eagle', model='draft')`, "seed": "0"}},
		{``, "=", map[string]string{}},
		{`]],'a': [`, ":", map[string]string{}},
		{`'a': 'open, 'b': 1`, ":", map[string]string{"a": "open, 'b': 1"}},
	} {
		got := map[string]string{}
		if addPairs(got, c.list, c.sign); c.list != `]],'a': [` && !maps.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.list, got, c.want)
		}
	}
}
