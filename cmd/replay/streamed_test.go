package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/report/rundir"
)

// With --stream, the rows in the file of requests equal those of a trace in memory, byte for byte, in every format,
// with ledgers and objectives. The report with exact quantiles and the digest are also equal.
func TestStreamedFilesAreKept(t *testing.T) {
	dir := t.TempDir()
	for _, of := range [][2]string{{"chat-hour", "parquet"}, {"chat-hour", "csv"}, {"chat-hour", "jsonl"}, {"sessions", "csv"}} {
		format := of[1]
		trace := filepath.Join("..", "..", "testdata", "traces", of[0]+".jsonl")
		var files, reports [2]string
		for i, more := range [][]string{nil, {"--stream", "--quantiles", "exact"}} {
			path := filepath.Join(dir, "rows."+format)
			args := append([]string{
				"trace", trace, "--workers", "4", "--router", "kv", "--requests", path, "--digest", "--slo", "ttft=60ms,p99:tpot=50ms", "--output", "json",
			}, more...)
			var out, errs bytes.Buffer
			if code := run(args, strings.NewReader(""), &out, &errs); code != 0 {
				t.Fatalf("%s: exit %d: %s", format, code, &errs)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[i] = string(text)
			for line := range strings.Lines(out.String()) {
				if !strings.Contains(line, "wall_time_ms") && !strings.Contains(line, "processed_") {
					reports[i] += line
				}
			}
		}
		if files[0] != files[1] {
			t.Errorf("%s: %d bytes of rows, want the %d of the trace that is kept", format, len(files[1]), len(files[0]))
		}
		if reports[0] != reports[1] {
			t.Errorf("%s: the report is\n%s\nwant\n%s", format, reports[1], reports[0])
		}
	}
}

// The files of a run directory with --stream equal those of a trace in memory, byte for byte, except real times and
// the files that run.json lists as absent.
func TestStreamedDirectoryIsKept(t *testing.T) {
	own := []string{"--workers", "3", "--scheduler-profile", "vllm", "--gpu", "h100", "--model", "llama-3.1-8b"}
	for _, c := range []struct {
		trace string
		args  []string
	}{
		{"chat-hour", []string{"--workers", "4", "--router", "kv", "--slo", "ttft=60ms,p99:tpot=50ms"}},
		{"chat-hour", []string{"--prefill-workers", "2", "--decode-workers", "2", "--engine", "sglang", "--requests-format", "csv"}},
		{"sessions", []string{"--workers", "2", "--engine", "trtllm", "--requests-format", "jsonl"}},
		{"chat-hour", append(own, "--until", "10m")},
		{"chat-hour", []string{"--speedup", "8", "--workers", "2", "--router", "least-loaded", "--autoscale", filepath.Join("..", "..", "testdata", "scaling", "hpa.yaml")}},
		{"chat-hour", append(own, "--max-model-len", "3000", "--requests-format", "csv")},
	} {
		var dirs [2]string
		var out [2]bytes.Buffer
		for i, more := range [][]string{nil, {"--stream"}} {
			dirs[i] = filepath.Join(t.TempDir(), "run")
			args := append([]string{"trace", filepath.Join("..", "..", "testdata", "traces", c.trace+".jsonl"), "--out", dirs[i]}, append(more, c.args...)...)
			var verified, errs bytes.Buffer
			if code := run(args, strings.NewReader(""), &out[i], &errs); code != 0 {
				t.Fatalf("%s: exit %d: %s", c.args, code, &errs)
			}
			if code := run([]string{"verify", dirs[i]}, strings.NewReader(""), &verified, &errs); code != 0 {
				t.Errorf("%s: verify: exit %d: %s%s", c.args, code, &verified, &errs)
			}
		}
		var why, errs bytes.Buffer
		if code := run([]string{"explain", dirs[1], "5"}, strings.NewReader(""), &why, &errs); code != 0 || !strings.Contains(why.String(), "the run has no work.parquet") {
			t.Errorf("%s: explain: exit %d: %s%s", c.args, code, &why, &errs)
		}
		files, err := os.ReadDir(dirs[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			want, err := os.ReadFile(filepath.Join(dirs[0], f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dirs[1], f.Name()))
			switch f.Name() {
			case "work.parquet", "scaling.json":
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %s: %v, want none", c.args, f.Name(), err)
				}
				if !strings.Contains(out[1].String(), "Not in it: "+f.Name()) {
					t.Errorf("%s: the report does not name %s as absent:\n%s", c.args, f.Name(), &out[1])
				}
				if r, err := rundir.Open(dirs[1]); err != nil || !slices.ContainsFunc(r.Absent, func(a rundir.Absent) bool { return a.Name == f.Name() }) {
					t.Errorf("%s: run.json does not name %s as absent: %v", c.args, f.Name(), err)
				}
				continue
			case "run.json":
				continue
			case "report.json":
				want, got = dropReal(want), dropReal(got)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %s has %d bytes, want the %d of the trace that is kept", c.args, f.Name(), len(got), len(want))
			}
		}
	}
}

// dropReal returns a report without its real times.
func dropReal(report []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(report) {
		if !bytes.Contains(line, []byte("wall_time_ms")) && !bytes.Contains(line, []byte("processed_")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// With --stream, the results by class are the same as without, if the trace or rules set the class of requests. The
// results with --stream are also the same if routers or admission rules read classes.
func TestStreamedClassesAreKept(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rng := rand.New(rand.NewPCG(1, 13))
	var flat, sessions strings.Builder
	at := 0.0
	for i := range 600 {
		at += rng.ExpFloat64() * 8
		blocks := 1 + rng.IntN(5)
		ids := []string{strconv.Itoa(rng.IntN(3)), strconv.Itoa(10 + rng.IntN(9)), strconv.Itoa(20 + i), strconv.Itoa(1000 + i), strconv.Itoa(2000 + i)}
		row := fmt.Sprintf(`"input_length":%d,"output_length":%d,"hash_ids":[%s]`, 64*blocks-rng.IntN(60), 1+rng.IntN(60), strings.Join(ids[:blocks], ","))
		class := ""
		if i == 0 || rng.IntN(3) > 0 {
			class = fmt.Sprintf(`"class":%q,`, []string{"batch", "chat", "code"}[rng.IntN(3)])
		}
		fmt.Fprintf(&flat, `{"timestamp":%v,%s%s}`+"\n", at, class, row)
		fmt.Fprintf(&sessions, `{"session_id":"s%d",%s"timestamp":%v,%s}`+"\n", i/4, class, at, row)
	}
	traces := []string{write("flat.jsonl", flat.String()), write("sessions.jsonl", sessions.String())}
	bare := write("bare.jsonl", regexp.MustCompile(`"class":"\w+",`).ReplaceAllString(flat.String(), ""))
	rules := write("rules.yaml", `
- {class: code, deadline: 200ms, weight: 3}
- {class: long, when: "request.input_tokens > 200 && request.turns < 9", priority: 2}
- {class: short, when: "request.output_tokens < 20 || request.prefix == 1", priority: -1, deadline: 50ms}
`)
	policies := write("router.yaml", `
name: by-class
scorers:
  - {score: "request.class == \"chat\" ? -requests : requests", weight: 1}
picker: max-score
hold: {above: "2 * pass_tokens", order: edf}
`)
	loose := write("loose.yaml", `
- {class: long, when: "request.input_tokens > 200"}
- {class: last, when: "request.session_id == \"request_7\" || request.session > 500"}
`)
	for _, args := range [][]string{
		{traces[0], "--slo", "chat:each:ttft=40ms,e2e=1s"},
		{traces[0], "--classes", rules, "--router", policies, "--max-num-batched-tokens", "256"},
		{traces[1], "--classes", rules, "--engine", "sglang", "--until", "4s"},
		{bare, "--classes", loose, "--stream-window", "0ms"},
		{bare, "--classes", loose, "--prefill-workers", "1", "--decode-workers", "2"},
	} {
		var files, reports [2]string
		for i, more := range [][]string{nil, {"--stream", "--quantiles", "exact"}} {
			path := filepath.Join(dir, "rows.csv")
			args := append(append([]string{"trace", "--trace-block-size", "64", "--block-size", "64", "--num-gpu-blocks", "80", "--requests", path, "--output", "json"}, args...), more...)
			if i == 0 {
				args = slices.DeleteFunc(args, func(a string) bool { return a == "--stream-window" || a == "0ms" })
			}
			if !slices.Contains(args, "--decode-workers") {
				args = append(args, "--workers", "2")
			}
			var out, errs bytes.Buffer
			if code := run(args, strings.NewReader(""), &out, &errs); code != 0 {
				t.Fatalf("%s: exit %d: %s", args, code, &errs)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[i], reports[i] = string(text), string(dropReal(out.Bytes()))
		}
		if !strings.Contains(reports[0], "class_fairness") || !strings.Contains(files[0], "class") {
			t.Errorf("%s: no classes in\n%s", args, reports[0])
		}
		if files[0] != files[1] {
			t.Errorf("%s: other rows than those of the trace that is kept", args)
		}
		if reports[0] != reports[1] {
			t.Errorf("%s: the report is\n%s\nwant\n%s", args, reports[1], reports[0])
		}
	}
}
