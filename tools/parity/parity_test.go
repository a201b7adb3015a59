package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A seed is a workload, and every tag can be asked for.
func TestDraw(t *testing.T) {
	met := make(map[string]int)
	for seed := range uint64(2000) {
		w := drawWorkload(seed)
		if !reflect.DeepEqual(w, drawWorkload(seed)) {
			t.Fatalf("seed %d draws two workloads", seed)
		}
		for _, tag := range w.tags {
			met[tag]++
		}
		if (w.trace == "") != w.tags.Has("synthetic") {
			t.Fatalf("seed %d: %v with a trace of %d bytes", seed, w.tags, len(w.trace))
		}
	}
	for _, tag := range allTags() {
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
	w := &workload{tags: []string{"vllm", "kv", "tight"}}
	for _, c := range []struct {
		only, skip string
		want       bool
	}{
		{"", "", true}, {"kv", "", true}, {"kv,tight", "", true}, {"kv,fifo", "", false},
		{"", "sglang", true}, {"", "sglang,kv", false}, {"tight", "kv", false},
	} {
		if got := w.tags.Match(c.only, c.skip); got != c.want {
			t.Errorf("-only %q -skip %q: %v, want %v", c.only, c.skip, got, c.want)
		}
	}
}

// The reference takes nearly all of what is drawn.
func TestPeerTakesWorkloads(t *testing.T) {
	python := filepath.Join(peerHome(), "1.2.1", "bin", "python")
	if _, err := os.Stat(python); err != nil || testing.Short() {
		t.Skip("the reference is not installed")
	}
	p := &peer{python: python, patience: 2 * time.Second}
	defer p.stop()
	dir := t.TempDir()
	taken, endless, refused := 0, 0, 0
	for seed := range uint64(60) {
		w := drawWorkload(seed)
		if w.plan != nil {
			continue
		}
		var args []string
		for _, a := range w.args {
			args = append(args, strings.ReplaceAll(a, profilePlace, filepath.Join(dir, "t.npz")))
		}
		if err := os.WriteFile(filepath.Join(dir, "t.npz"), w.profile, 0o600); err != nil {
			t.Fatal(err)
		}
		if w.trace != "" {
			path := filepath.Join(dir, "t.jsonl")
			if err := os.WriteFile(path, []byte(w.trace), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append([]string{path}, args...)
		}
		a, err := p.run(context.Background(), append(args, "--report-json", filepath.Join(dir, "r.json")))
		switch {
		case errors.Is(err, errEndless):
			endless++
			t.Logf("seed %d: endless, %v %v", seed, w.tags, w.args)
		case err != nil:
			t.Fatal(err)
		case a.Code != 0:
			refused++
			t.Logf("seed %d: %s: %v %s", seed, strings.TrimSpace(a.Said), w.tags, w.args)
		default:
			taken++
		}
	}
	if taken < 45 {
		t.Errorf("%d of 60 workloads are taken, %d refused, %d endless; want at least 45 taken", taken, refused, endless)
	}
}
