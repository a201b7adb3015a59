package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate"
)

// Settings in the log of a server apply to the replay; this server captures no graphs. Without --gpu the setting
// cannot apply, and a note is printed.
func TestReportedSettings(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	dir := makeRun(t, "reported", 12)
	for _, flags := range [][]string{{"--gpu", "h100", "--model", "qwen3-14b"}, nil} {
		var out, errs bytes.Buffer
		args := append([]string{"validate", dir, "--endpoint-picker", "picker/precise.yaml", "--output", "json"}, flags...)
		if code := run(args, nil, &out, &errs); code != 0 {
			t.Fatalf("exit %d: %s", code, &errs)
		}
		var got struct {
			FromRun []string           `json:"settings_of_the_run"`
			Notes   []string           `json:"notes"`
			Checks  []calibrate.Judged `json:"checks"`
		}
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		tpot := got.Checks[0].Errors[1]
		applied := strings.Contains(strings.Join(got.FromRun, "\n"), "graphs none")
		if listed := strings.Contains(strings.Join(got.Notes, "\n"), "graphs none (requires --gpu)"); applied != (flags != nil) || listed == applied {
			t.Errorf("%v: %q, %q", flags, got.FromRun, got.Notes)
		}
		if applied && math.Abs(tpot.Mean) > 0.01 {
			t.Errorf("mean TPOT is %+.1f %% off, want within 1 %%", 100*tpot.Mean)
		}
	}
}
