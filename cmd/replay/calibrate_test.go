package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/scheduler/timing"
)

// The complete profile is written to a directory that does not exist yet, and can be read again.
func TestCalibrateCommand(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "deep", "er", "p.json")
	var out, errs bytes.Buffer
	if code := run([]string{"calibrate", filepath.Join("testdata", "files", "measured"), "--profile", profile}, nil, &out, &errs); code != cli.ExitDone || errs.Len() > 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	if _, err := timing.ParseSource(profile).Load(); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(filepath.Dir(profile)); err != nil || len(files) != 1 {
		t.Errorf("%v beside the profile, %v", files, err)
	}
}
