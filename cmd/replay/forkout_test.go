package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/report/rundir"
)

// TestForkDirsEqualRuns compares the directory of each future with the directory of a complete run of its command,
// file by file.
func TestForkDirsEqualRuns(t *testing.T) {
	tests := filepath.Join("..", "..", "testdata")
	trace := filepath.Join(tests, "traces", "chat-hour.jsonl")
	cases := map[string]struct {
		flags   string
		futures []string
	}{
		"kv":          {"--workers=3 --router=kv --passes --slo=p99:ttft=200ms --requests-format=csv", []string{"workers=1", "router=p2c,workers=4", `"router-config={""router_temperature"": 1}"`}},
		"one worker":  {"--workers=1 --router=kv --router-queue-threshold=0", []string{"workers=3", "router=p2c"}},
		"later":       {"--workers=2 --change=at=1m,workers=3 --change=at=4m,router=p2c --passes", []string{"workers=1", "router=kv"}},
		"reference":   {"--workers=2 --scheduler-profile=reference --router=kv --passes", []string{"workers=3", `"worker-speed=1,0.3"`}},
		"sglang":      {"--workers=2 --engine=sglang --router=kv --passes", []string{"speedup=2"}},
		"pools":       {"--prefill-workers=2 --decode-workers=2 --passes", []string{"decode-workers=1", "router=p2c"}},
		"closed loop": {"--max-in-flight=6 --workers=2", []string{"workers=4"}},
		"faults":      {"--workers=6 --faults=" + filepath.Join(tests, "faults", "zone.yaml") + " --slo=p99:ttft=200ms", []string{"router=p2c", "workers=5"}},
		"autoscaler":  {"--autoscale=" + filepath.Join(tests, "scaling", "hpa-4.yaml") + " --passes", []string{"router=p2c"}},
		"faults come": {"--workers=4 --until=22m", []string{"faults=" + filepath.Join(tests, "faults", "one-dies.yaml")}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "all", "futures")
			args := append([]string{"fork", "--at=2m", trace, "--until=6m", "--seed=3", "--out=" + dir, "--output=json"}, strings.Fields(c.flags)...)
			for _, f := range c.futures {
				args = append(args, "--future="+f)
			}
			printed(t, args)
			checkFutures(t, dir, 1+len(c.futures))
		})
	}
}

// checkFutures runs the command of each run directory in dir again, and compares the files.
func checkFutures(t *testing.T, dir string, want int) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != want {
		t.Fatalf("%d directories, want %d: %v", len(all), want, err)
	}
	for _, d := range all {
		path := filepath.Join(dir, d.Name())
		recorded, err := rundir.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if own := "--out=" + path; !slices.Contains(recorded.Command, own) {
			t.Fatalf("%q, want %s", recorded.Command, own)
		}
		whole := filepath.Join(t.TempDir(), d.Name())
		printed(t, append(slices.Clone(recorded.Command), "--out="+whole))
		sameFiles(t, path, whole)
	}
}

// sameFiles compares run directories, except their paths and the durations of the runs.
func sameFiles(t *testing.T, a, b string) {
	t.Helper()
	read := func(dir string) map[string]string {
		all := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			switch d.Name() {
			case rundir.ReportFile:
				text = regexp.MustCompile(`(?m)^ *"(wall_time_ms|processed_[a-z_]*)": .*\n`).ReplaceAll(text, nil)
			case rundir.RunFile:
				var run rundir.Run
				if err := json.Unmarshal(text, &run); err != nil {
					return err
				}
				run.Command = nil
				for i := range run.Files {
					if run.Files[i].Name == rundir.ReportFile {
						run.Files[i] = rundir.Stored{}
					}
				}
				text, err = json.Marshal(run)
			}
			all[d.Name()] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	of, other := read(a), read(b)
	if len(of) != len(other) || len(of) < 6 {
		t.Errorf("%s has %d files, and the whole run %d", a, len(of), len(other))
	}
	for name := range other {
		if of[name] != other[name] {
			t.Errorf("%s: %s is another than of the whole run", a, name)
		}
	}
}

// TestForkOfRecorded records the futures of a recorded run. Output files of the recorded command outside its
// directory are not written again.
func TestForkOfRecorded(t *testing.T) {
	trace := filepath.Join("..", "..", "testdata", "traces", "short.jsonl")
	dir := t.TempDir()
	report, rows := filepath.Join(dir, "report.json"), filepath.Join(dir, "rows.csv")
	printed(t, []string{"trace", trace, "--workers=2", "--report-json", report, "--requests", rows, "--digest", "--output", "json", "--out", filepath.Join(dir, "run")})
	for _, path := range []string{report, rows} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	futures := filepath.Join(dir, "futures")
	printed(t, []string{"fork", filepath.Join(dir, "run"), "--at=1s", "--grid=router=kv,p2c", "--grid=workers=1,3", "--out", futures, "--requests-format=jsonl", "--slo=ttft=1s"})
	checkFutures(t, futures, 5)
	sameNames := []string{"as-it-was", "router=kv,workers=1", "router=kv,workers=3", "router=p2c,workers=1", "router=p2c,workers=3"}
	all, _ := os.ReadDir(futures)
	for i, d := range all {
		if d.Name() != sameNames[i] {
			t.Errorf("directory %s, want %s", d.Name(), sameNames[i])
		}
	}
	for _, path := range []string{report, rows} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is there again", path)
		}
	}
	printed(t, []string{"fork", filepath.Join(futures, "router=kv,workers=3"), "--at=2s", "--set=workers=2"})
}

// TestForkLeavesNothingHalf checks that a failed fork removes its files.
func TestForkLeavesNothingHalf(t *testing.T) {
	trace := filepath.Join("..", "..", "testdata", "traces", "short.jsonl")
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--out=" + there}, "exists, must be a new path"},
		{[]string{"--out=" + filepath.Join(there, "below")}, "not a directory"},
		{[]string{"--out=" + filepath.Join(dir, "new"), "--slo=ttft=1s", "--slo-attainment=2"}, "must be 0 to 1"},
		{[]string{"--out=" + filepath.Join(dir, "new"), "--num-gpu-blocks=2"}, "replay"},
		{[]string{"--passes"}, "--passes requires --out"},
	} {
		var errs bytes.Buffer
		args := append([]string{"fork", trace, "--at=1s", "--set=workers=2"}, c.args...)
		if code := run(args, nil, &bytes.Buffer{}, &errs); code == 0 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%q: exit %d: %s", c.args, code, &errs)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := cli.Streams{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}, Program: root.New}
	s.Args = []string{"fork", trace, "--at=1s", "--set=workers=2", "--out=" + filepath.Join(dir, "new")}
	if err := s.Execute(ctx, s.Args); err == nil {
		t.Error("a fork that is interrupted ends well")
	}
	all, _ := os.ReadDir(dir)
	if len(all) != 1 {
		t.Errorf("%d files are left, want the one that was there: %v", len(all), all)
	}
}

// TestForkNames checks the names of directories of futures with settings that are not valid file names.
func TestForkNames(t *testing.T) {
	trace := filepath.Join("..", "..", "testdata", "traces", "short.jsonl")
	dir := filepath.Join(t.TempDir(), "futures")
	policy := filepath.Join("..", "..", "testdata", "policies", "cache-first.yaml")
	printed(t, []string{"fork", trace, "--workers=2", "--at=1s", "--out", dir, "--future=workers=3", "--future=workers=3", "--future=router-policy=" + policy})
	for _, want := range []string{"as-it-was", "workers=3", "workers=3-2", "router-policy=..-..-testdata-policies-cache-first.yaml"} {
		if _, err := rundir.Open(filepath.Join(dir, want)); err != nil {
			t.Error(err)
		}
	}
}
