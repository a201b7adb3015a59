package draw

import (
	"reflect"
	"testing"
)

// Each seed always draws the same workload, and every tag occurs.
func TestDraw(t *testing.T) {
	met := make(map[string]int)
	for seed := range uint64(2000) {
		w := New(seed)
		if !reflect.DeepEqual(w, New(seed)) {
			t.Fatalf("seed %d draws two workloads", seed)
		}
		for _, tag := range w.Tags {
			met[tag]++
		}
		if (w.Trace == "") != w.Tags.Has("synthetic") {
			t.Fatalf("seed %d: %v with a trace of %d bytes", seed, w.Tags, len(w.Trace))
		}
	}
	for _, tag := range AllTags() {
		if met[tag] < 20 {
			t.Errorf("%q is met %d times in 2000, want at least 20", tag, met[tag])
		}
		delete(met, tag)
	}
	if len(met) > 0 {
		t.Errorf("tags that are not listed: %v", met)
	}
}

func TestWanted(t *testing.T) {
	w := &Workload{Tags: []string{"vllm", "kv", "tight"}}
	for _, c := range []struct {
		only, skip string
		want       bool
	}{
		{"", "", true}, {"kv", "", true}, {"kv,tight", "", true}, {"kv,fifo", "", false},
		{"", "sglang", true}, {"", "sglang,kv", false}, {"tight", "kv", false},
	} {
		if got := w.Tags.Match(c.only, c.skip); got != c.want {
			t.Errorf("-only %q -skip %q: %v, want %v", c.only, c.skip, got, c.want)
		}
	}
}
