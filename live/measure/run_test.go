//go:build unix

package measure_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/replay-llm/replay/live/measure"
)

// countLines returns the number of lines of a file, and checks that they are complete JSON.
func countLines(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if last := lines[len(lines)-1]; len(last) > 0 {
		t.Errorf("%s ends with %q, want a whole line", path, last)
	}
	for _, l := range lines[:len(lines)-1] {
		if !json.Valid(l) {
			t.Errorf("%s: %q", path, l)
		}
	}
	return len(lines) - 1
}

// If the disk is full for a while, the requests during this time are lost and counted. The two files of the run have
// complete lines of the same requests, and writing continues afterwards.
func TestFullDisk(t *testing.T) { synctest.Test(t, fullDisk) }

func fullDisk(t *testing.T) {
	dir := t.TempDir()
	warned := make(chan error, 10)
	r, err := measure.Create(dir, measure.Options{BlockTokens: 16, Meta: map[string]any{}, Warn: func(err error) { warned <- err }})
	if err != nil {
		t.Fatal(err)
	}
	add := func(n int) {
		for range n {
			r.Add(&measure.Row{ID: "a", Status: measure.StatusOK, Input: 400, Output: 3, Blocks: make([]uint64, 25)})
		}
		time.Sleep(500 * time.Millisecond) // rows are written five times a second
		synctest.Wait()
	}
	add(5)
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	full := old
	full.Cur = 2000 // maximum bytes of a file
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	add(30)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	add(7)
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "file too large") || !strings.Contains(err.Error(), "30 requests are missing") {
		t.Errorf("%v, want that 30 requests are missing, and why", err)
	}
	if len(warned) != 1 {
		t.Errorf("%d warnings, want one", len(warned))
	}
	if rows, trace := countLines(t, filepath.Join(dir, measure.RowsFile)), countLines(t, filepath.Join(dir, measure.TraceFile)); rows != 12 || trace != 12 {
		t.Errorf("%d rows, %d lines of the trace, want 12 of each", rows, trace)
	}
}

// If a new part cannot be created, the request is lost, and a later request creates the part.
func TestPartThatCannotBeMade(t *testing.T) { synctest.Test(t, partThatCannotBeMade) }

func partThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	r, err := measure.Create(dir, measure.Options{BlockTokens: 16, Meta: map[string]any{}, PartTime: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(dir, "part-0002")
	if err := os.WriteFile(block, nil, 0o600); err != nil { // a file at the path of the directory
		t.Fatal(err)
	}
	add := func() {
		r.Add(&measure.Row{ID: "a", Status: measure.StatusOK, Input: 4, Output: 3})
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
	}
	add()
	add()
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	add()
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "1 requests are missing") {
		t.Errorf("%v, want that one request is missing", err)
	}
	for _, part := range []string{"part-0001", "part-0002"} {
		if n := countLines(t, filepath.Join(dir, part, measure.RowsFile)); n != 1 {
			t.Errorf("%s: %d rows, want 1", part, n)
		}
	}
}
