package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/rundir"
)

// recorded runs a command line with --out and returns the directory's name.
func recorded(t *testing.T, dir, stdin string, words ...string) string {
	t.Helper()
	var errs bytes.Buffer
	if code := run(append(words, "--out", dir), strings.NewReader(stdin), &bytes.Buffer{}, &errs); code != 0 {
		t.Fatalf("replay %s: exit %d: %s", strings.Join(words, " "), code, &errs)
	}
	return dir
}

// differences returns the output of replay diff for two directories that must differ.
func differences(t *testing.T, words ...string) (d diff.Diff) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(append([]string{"diff", "--json"}, words...), strings.NewReader(""), &out, &errs); code != cli.ExitDiffer {
		t.Fatalf("replay diff %s: exit %d: %s", strings.Join(words, " "), code, &errs)
	}
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The first difference is the same for recorded passes and for the passes of a repeated run. Repeating a run creates
// no files.
func TestFirstPass(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	common := []string{"requests.jsonl", "--trace-block-size", "64"}
	for name, words := range map[string][]string{
		"trace":       append([]string{"trace"}, common...),
		"concurrency": append([]string{"concurrency", "--max-in-flight", "3"}, common...),
		"no command":  common,
	} {
		two := recorded(t, name+"/two", "", append(words, "--workers", "2", "--timeline", name+".json", "--report-json", name+"-report.json", "--requests", name+".csv")...)
		one := recorded(t, name+"/one", "", append(words, "--slo", "ttft=1us")...)
		one2 := recorded(t, name+"/one-passes", "", append(words, "--passes")...)
		for _, file := range []string{name + ".json", name + "-report.json", name + ".csv"} {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		ran, kept := differences(t, two, one), differences(t, two, one2)
		if ran.FirstPass == nil || kept.FirstPass == nil || *ran.FirstPass != *kept.FirstPass {
			t.Errorf("%s: run again %+v (%s), recorded %+v (%s)", name, ran.FirstPass, ran.NoPass, kept.FirstPass, kept.NoPass)
		}
		for _, file := range []string{name + ".json", name + "-report.json", name + ".csv"} {
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s: %s was written once more", name, file)
			}
		}
		if none := differences(t, two, one, "--rerun=false"); none.FirstPass != nil || !strings.Contains(none.NoPass, "no passes recorded") {
			t.Errorf("%s: without running again: %+v, %q", name, none.FirstPass, none.NoPass)
		}
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
		t.Errorf("%v, %v left behind", err, left)
	}
}

// replay diff reports a run that cannot be repeated, or that gives another result.
func TestFirstPassUnknown(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)
	text, err := os.ReadFile("requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"trace", "--trace-block-size", "64"}
	one := recorded(t, "one", "", append(words, "requests.jsonl", "--passes")...)
	piped := recorded(t, "piped", string(text), append(words, "-", "--workers", "2")...)
	if err := os.WriteFile("other.jsonl", text, 0o600); err != nil {
		t.Fatal(err)
	}
	gone := recorded(t, "gone", "", append(words, "other.jsonl", "--workers", "2")...)
	changed := recorded(t, "changed", "", append(words, "requests.jsonl", "--workers", "2")...)
	editRun(t, changed, func(r map[string]any) { r["command"] = append(r["command"].([]any), "--workers", "3") })
	broken := recorded(t, "broken", "", append(words, "requests.jsonl", "--workers", "2")...)
	editRun(t, broken, func(r map[string]any) { r["command"] = append(r["command"].([]any), "--no-such-flag") })
	if err := os.WriteFile("other.jsonl", append(text, text...), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		piped: "standard input", gone: "trace other.jsonl has changed since", changed: "gives another run", broken: "no such flag",
	} {
		if d := differences(t, one, dir); d.FirstPass != nil || !strings.Contains(d.NoPass, want) || !strings.Contains(d.NoPass, dir) {
			t.Errorf("%s: first pass %+v, unknown because of %q, want %q", dir, d.FirstPass, d.NoPass, want)
		}
	}
}

// editRun changes the run.json of a directory.
func editRun(t *testing.T, dir string, change func(map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, rundir.RunFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r map[string]any
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	change(r)
	if text, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
