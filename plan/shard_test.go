package plan

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// runShard runs a shard of the sweep of sweepOf into a file, and returns the number of cells that it ran.
func runShard(t *testing.T, path string, shard Shard, program string) int {
	t.Helper()
	var ran atomic.Int64
	s, g := sweepOf(t, filepath.Join(t.TempDir(), "none"), &ran)
	part := NewPart(shard, program, g, s.Keys)
	s.Cells, s.Keys = shard.Take(s.Cells, s.Keys)
	var err error
	if s.Journal, err = OpenPart(path, part); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Journal.Close(); err != nil {
		t.Fatal(err)
	}
	return int(ran.Load())
}

// Any number of shards gives the table of one process, also if shards are interrupted at any byte and run again, or
// run twice at the same time.
func TestShards(t *testing.T) {
	dir := t.TempDir()
	var ran atomic.Int64
	s, g := sweepOf(t, filepath.Join(dir, "j"), &ran)
	outcomes, _, err := s.Do(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := csvOf(t, g, outcomes)
	for of := 1; of <= 7; of++ {
		var paths []string
		for i := range of {
			path := filepath.Join(dir, fmt.Sprintf("%d-%d.json", i, of))
			runShard(t, path, Shard{i, of}, "v1")
			paths = append(paths, path)
		}
		text, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatal(err)
		}
		for cut := 0; cut < len(text); cut += 7 {
			if err := os.WriteFile(paths[0], text[:cut], 0o644); err != nil {
				t.Fatal(err)
			}
			if _, _, err := MergeParts(paths); err == nil && bytes.Count(text[:cut], []byte{'\n'}) < bytes.Count(text, []byte{'\n'}) {
				t.Fatalf("%d of %d bytes of a shard of %d are merged", cut, len(text), of)
			}
			again := runShard(t, paths[0], Shard{0, of}, "v1")
			if lost := bytes.Count(text, []byte{'\n'}) - bytes.Count(text[:cut], []byte{'\n'}); again > lost+1 { // the failed cell runs again
				t.Fatalf("%d cells run again of %d that are lost", again, lost)
			}
			merged, all, err := MergeParts(paths)
			if err != nil {
				t.Fatal(err)
			}
			if got := csvOf(t, merged, all); got != want {
				t.Fatalf("%d shards:\n%s\nwant\n%s", of, got, want)
			}
		}
		if err := os.WriteFile(paths[0], append(text, text[bytes.IndexByte(text, '\n')+1:]...), 0o644); err != nil { // another process wrote all cells, too
			t.Fatal(err)
		}
		if _, all, err := MergeParts(paths); err != nil || csvOf(t, g, all) != want {
			t.Errorf("cells that are written twice: %v", err)
		}
	}
}

// The error for shards that do not belong together names them.
func TestShardsThatDoNotFit(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	runShard(t, path("a"), Shard{0, 3}, "v1")
	runShard(t, path("b"), Shard{1, 3}, "v1")
	runShard(t, path("half"), Shard{1, 2}, "v1")
	runShard(t, path("newer"), Shard{1, 3}, "v2")
	text, err := os.ReadFile(path("b"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte{'\n'})
	for name, content := range map[string][]byte{
		"short": bytes.Join(lines[:2], nil), "table": []byte("[]\n"),
		"other": bytes.Replace(text, []byte(`"sweep":"`), []byte(`"sweep":"0`), 1),
		"wrong": bytes.Replace(text, []byte(`"index":1`), []byte(`"index":3`), 1),
	} {
		if err := os.WriteFile(path(name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ names, want string }{
		{"a", "missing shards: 2/3, 3/3"},
		{"a b a", "a: is shard 1/3 as " + path("a") + ", must be given once"},
		{"a half", "half: is shard 2/2, must be one of 3"},
		{"a newer", "newer: is of program v2, must be of v1"},
		{"a other", "other: is of another sweep"},
		{"a short", "short: has 1 of 2 cells of shard 2/3"},
		{"a wrong", "wrong: is not a shard of a sweep"},
		{"table", "table: is not a shard of a sweep"},
	} {
		var paths []string
		for name := range strings.FieldsSeq(c.names) {
			paths = append(paths, path(name))
		}
		if _, _, err := MergeParts(paths); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.names, err, c.want)
		}
	}
	if _, err := OpenPart(path("a"), &Part{Shard: Shard{1, 3}}); err == nil || !strings.Contains(err.Error(), "is not a file of this shard") {
		t.Errorf("another shard is written to the file of a shard: %v", err)
	}
}
