package runs

import "testing"

// Recent caches the last four values. Getting a cached value again makes it the most recent value.
func TestRecent(t *testing.T) {
	var kept Recent[string]
	made := 0
	get := func(key string) {
		t.Helper()
		if got := kept.Get(key, func() string { made++; return "value of " + key }); got != "value of "+key {
			t.Errorf("%s: got %q", key, got)
		}
	}
	for _, step := range []struct {
		key  string
		made int
	}{{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"a", 4}, {"e", 5}, {"a", 5}, {"b", 6}} {
		if get(step.key); made != step.made {
			t.Errorf("after %s %d were made, want %d", step.key, made, step.made)
		}
	}
}
