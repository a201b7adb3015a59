package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// A table replaces an existing file or directory only with --overwrite.
func TestTableFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.csv")
	folder := filepath.Join(dir, "b.csv")
	if err := errors.Join(os.WriteFile(path, []byte("mine"), 0o600), os.Mkdir(folder, 0o700)); err != nil {
		t.Fatal(err)
	}
	load := []string{"--input-tokens=64", "--output-tokens=2", "--request-count=2"}
	sweep := []string{"sweep", "--grid=workers=1", "--set=input-tokens=64", "--set=output-tokens=2", "--set=request-count=2", "--set=arrival-interval-ms=10"}
	plan := append([]string{"plan", "--slo=p99:ttft=1s", "--arrival-interval-ms=10", "--resamples=0", "--front=false"}, load...)
	for _, args := range [][]string{sweep, plan} {
		for _, out := range [][]string{{path}, {folder}, {folder, "--overwrite"}} {
			code, table, errs := command("", append(args, append([]string{"--out"}, out...)...)...)
			if code != cli.ExitRefused || table != "" || !strings.Contains(errs, out[0]+": ") {
				t.Errorf("%q %q: exit %d\n%s%s", args, out, code, table, errs)
			}
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
			t.Fatalf("%q: %q, %v", args, text, err)
		}
	}
	if code, _, errs := command("", append(sweep, "--out", path, "--overwrite")...); code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "cell,") {
		t.Errorf("%q, %v", text, err)
	}
}
