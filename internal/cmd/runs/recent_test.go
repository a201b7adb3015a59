package runs

import "testing"

// The last four requested replays are kept, and a repeated request is one of them.
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
