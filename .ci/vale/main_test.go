package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

// Comments and strings of at least three words keep their line numbers. Strings of tests are omitted.
func TestSplitFile(t *testing.T) {
	code := "package a\n\n// One comes first,\n// on two lines.\nvar a = \"no\"\n\nvar b = `three words here\nand a second line`\n"
	comments, texts, err := splitFile("a.go", []byte(code))
	if err != nil {
		t.Fatal(err)
	}
	if len(comments) != 1 || comments[0].line != 3 || len(texts) != 1 || texts[0].line != 7 {
		t.Fatalf("comments %v, texts %v", comments, texts)
	}
	joined, lines := joinPassages(append(comments, texts...))
	s := source{"comments", "a.go", lines}
	for n, want := range map[string]int{"One comes first,": 3, "on two lines.": 4, "three words here": 7, "and a second line": 8} {
		at := strings.Count(joined[:strings.Index(joined, n)], "\n") + 1
		if got := s.line(at); got != want {
			t.Errorf("%q is of line %d, must be %d", n, got, want)
		}
	}
	if _, texts, err = splitFile("a_test.go", []byte(code)); err != nil || len(texts) > 0 {
		t.Errorf("texts of a test: %v, %v", texts, err)
	}
}

// A count may fall and must not rise.
func TestCheckCounts(t *testing.T) {
	t.Chdir(t.TempDir())
	c := count{"markdown", "docs", "errors"}
	if err := writeCounts(map[count]int{c: 2}); err != nil {
		t.Fatal(err)
	}
	alerts := []alert{{c, "docs/a.md:1", "first"}, {c, "docs/a.md:2", "second"}, {c, "docs/a.md:3", "third"}}
	if err := checkCounts(io.Discard, alerts[:2], false); err != nil {
		t.Errorf("as many as allowed: %v", err)
	}
	if err := checkCounts(io.Discard, alerts, true); err == nil || !strings.Contains(err.Error(), "docs/a.md:3: third") {
		t.Errorf("one more than allowed: %v", err)
	}
	if err := checkCounts(io.Discard, alerts[:1], true); err != nil {
		t.Errorf("one fewer than allowed: %v", err)
	}
	if text, err := os.ReadFile(counts); err != nil || string(text) != "markdown docs errors 1\n" {
		t.Errorf("%s has %q, %v", counts, text, err)
	}
	if err := checkCounts(io.Discard, []alert{{count{"markdown", "new", "errors"}, "new/a.md:1", "first"}}, false); err == nil {
		t.Error("an alert in a new folder passes")
	}
}

func TestFolderOf(t *testing.T) {
	for name, want := range map[string]string{"README.md": ".", "docs/a.md": "docs", "cmd/replay/plans/plan.go": "cmd/replay"} {
		if got := folderOf(name); got != want {
			t.Errorf("%s is of folder %s, must be %s", name, got, want)
		}
	}
}
