package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
	"github.com/replay-llm/replay/internal/long"
	"github.com/replay-llm/replay/sim"
)

// Observers change no output: with and without --watch, the output and the files of a command are the same, byte for
// byte.
func TestWatchChangesNothing(t *testing.T) {
	here, _ := os.Getwd()
	for seed := range long.Cases(uint64(8), 24) {
		line := drawWatched(sim.NewRand(seed, "watch"))
		var left [2]map[string]string
		for i, watch := range []string{"", "--watch"} {
			dir := enterFiles(t, here)
			args := strings.Fields(line)
			if watch != "" {
				args = append(append([]string{args[0], watch}, args[1:]...), "--watch=50ms")
			}
			var out, errs bytes.Buffer
			if code := run(args, nil, &out, &errs); code != 0 {
				t.Fatalf("%q: exit %d: %s", args, code, &errs)
			}
			if looked := strings.Contains(errs.String(), "replay: ended at "); looked != (watch != "") {
				t.Errorf("%q: standard error:\n%s", args, &errs)
			}
			left[i] = readAll(t, dir)
			left[i]["standard output"] = out.String()
		}
		for name, text := range left[0] {
			if got := left[1][name]; stable(got) != stable(text) {
				t.Errorf("%s: %s differs with --watch:\n%.2000s\nwant\n%.2000s", line, name, got, text)
			}
		}
		if len(left[0]) != len(left[1]) {
			t.Errorf("%s: %d files without --watch, %d with it", line, len(left[0]), len(left[1]))
		}
	}
}

// stable removes the parts of a text that differ between two runs.
func stable(text string) string {
	// run.json has a hash of the report, and the report has the real time of the run.
	return regexp.MustCompile(`(?s)("name": "report.json",\s*"bytes": )\d+(,\s*"sha256": ")\w+`).ReplaceAllString(clitest.CleanText(text), "${1}...${2}...")
}

// drawWatched draws a command line of a replay that writes files.
func drawWatched(random *rand.Rand) string {
	line := fmt.Sprintf("trace --input-tokens %d --output-tokens %d --request-count %d --arrival-interval-ms %d", 1+random.IntN(900), 1+random.IntN(60), 20+random.IntN(150), random.IntN(40))
	if random.IntN(4) == 0 {
		line = fmt.Sprintf("concurrency --input-tokens 300 --output-tokens %d --request-count %d --max-in-flight %d", 1+random.IntN(60), 20+random.IntN(150), 1+random.IntN(30))
	}
	switch random.IntN(4) {
	case 0:
		line += fmt.Sprintf(" --prefill-workers %d --decode-workers %d", 1+random.IntN(3), 1+random.IntN(3))
	case 1:
		line += fmt.Sprintf(" --workers %d --router kv", 2+random.IntN(4))
	case 2:
		line += fmt.Sprintf(" --workers %d", 1+random.IntN(4))
	}
	line += fmt.Sprintf(" --num-gpu-blocks %d --report-json r.json", 64+random.IntN(200))
	for _, more := range []string{"--out run --requests-format jsonl --passes", "--timeline t.json", "--requests q.csv", "--kv-events-file kv.jsonl", "--digest", "--slo ttft=500ms"} {
		if random.IntN(2) == 0 {
			line += " " + more
		}
	}
	return line
}

// readAll returns the files below a directory, by name.
func readAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A word that only resembles the flag --watch stays in the recorded command line.
func TestWatchIsNotRecorded(t *testing.T) {
	here, _ := os.Getwd()
	enterFiles(t, here)
	for _, c := range []struct{ line, want string }{
		{"trace --watch --request-count 3 --input-tokens 9 --output-tokens 2 --out a --watch=1s", `["trace","--request-count","3","--input-tokens","9","--output-tokens","2","--out","a"]`},
		{"trace --watch=false --request-count 3 --input-tokens 9 --output-tokens 2 --out --watch=b", `["trace","--watch=false","--request-count","3","--input-tokens","9","--output-tokens","2","--out","--watch=b"]`},
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(c.line), nil, &out, &errs); code != 0 {
			t.Fatalf("%s: exit %d: %s", c.line, code, &errs)
		}
		dir := "a"
		if strings.HasSuffix(c.line, "b") {
			dir = "--watch=b"
		}
		text, err := os.ReadFile(filepath.Join(dir, "run.json"))
		if err != nil {
			t.Fatal(err)
		}
		if joined := strings.NewReplacer("\n", "", " ", "").Replace(string(text)); !strings.Contains(joined, c.want) {
			t.Errorf("%s: recorded as\n%s\nwant %s", c.line, text, c.want)
		}
	}
}
