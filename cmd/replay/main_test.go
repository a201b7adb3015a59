package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/cmd/replay/root"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
	"github.com/replay-llm/replay/internal/script"
)

var rewrite = flag.Bool("rewrite", false, "put what commands print into the transcripts")

func TestMain(m *testing.M) {
	os.Exit(clitest.Main(m, map[string]cli.Program{"replay": root.New}))
}

// run runs a command line of the program.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Program(root.New).Run(args, stdin, stdout, stderr)
}

// TestScripts runs testdata/*.script in a directory with copies of the files in testdata/files.
func TestScripts(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(here, "testdata", "*.script"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".script"), func(t *testing.T) {
			enterFiles(t, here)
			clitest.EnterPath(t, "replay")
			script.Run(t, path, script.Options{Name: "replay", Program: run, Rewrite: *rewrite, Clean: clitest.NewCleaner()})
		})
	}
}

// enterFiles changes to a new directory with copies of the files of testdata/files.
func enterFiles(t *testing.T, here string) string {
	t.Helper()
	return clitest.EnterCopy(t, filepath.Join(here, "testdata", "files"))
}

// Standard output contains only the report.
func TestJSONForPipes(t *testing.T) {
	here, _ := os.Getwd()
	dir := enterFiles(t, here)
	var out, errs bytes.Buffer
	if code := run([]string{"trace", "requests.jsonl", "--trace-block-size=64", "--output=json", "--report-json", "r.json"}, nil, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	file, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil || !bytes.Equal(file, out.Bytes()) || !bytes.HasPrefix(file, []byte("{\n")) {
		t.Errorf("%v; standard output:\n%s\nfile:\n%s", err, &out, file)
	}
}

// The document of a plan is the same in a file, next to the table and on standard output, also for a plan without a
// result.
func TestPlanDocumentInAFile(t *testing.T) {
	here, _ := os.Getwd()
	dir := enterFiles(t, here)
	for slo, want := range map[string]int{"p99:ttft=1s": 0, "p99:ttft=1us": cli.ExitObjective} {
		args := []string{"plan", "requests.jsonl", "--trace-block-size=64", "--slo", slo, "--resamples=0", "--max-workers=2"}
		var table, document, errs bytes.Buffer
		if code := run(append(args, "--report-json", "p.json"), nil, &table, &errs); code != want || !strings.Contains(table.String(), "Replays: ") {
			t.Fatalf("%s: exit %d, want %d: %s%s", slo, code, want, &table, &errs)
		}
		if code := run(append(args, "--output=json"), nil, &document, &errs); code != want {
			t.Fatalf("%s: exit %d, want %d: %s", slo, code, want, &errs)
		}
		if file, err := os.ReadFile(filepath.Join(dir, "p.json")); err != nil || !bytes.Equal(file, document.Bytes()) {
			t.Errorf("%s: %v: file:\n%s\nstandard output:\n%s", slo, err, file, &document)
		}
		errs.Reset()
		if code := run(append(args, "--report-json", "requests.jsonl/p.json"), nil, &table, &errs); code != cli.ExitRefused || !strings.Contains(errs.String(), "--report-json: ") {
			t.Errorf("%s: exit %d: %s", slo, code, &errs)
		}
	}
}

// A report that cannot be written is an error, as is a full standard output.
func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is always full: %v", err)
	}
	defer full.Close()
	here, _ := os.Getwd()
	enterFiles(t, here)
	var out, errs bytes.Buffer
	args := []string{"trace", "requests.jsonl", "--trace-block-size=64"}
	if code := run(append(args, "--report-json=/dev/full"), nil, &out, &errs); code != cli.ExitRefused || out.Len() > 0 {
		t.Errorf("report: exit %d, standard output %q", code, &out)
	}
	if want := "replay: --report-json: write /dev/full: no space left on device\n"; errs.String() != want {
		t.Errorf("report: %q, want %q", &errs, want)
	}
	errs.Reset()
	if code := run(args, nil, full, &errs); code != cli.ExitRefused || !strings.Contains(errs.String(), "no space left") {
		t.Errorf("standard output: exit %d, %q", code, &errs)
	}
}

// A rejected command line creates no files.
func TestNothingIsWrittenOnFailure(t *testing.T) {
	here, _ := os.Getwd()
	dir := enterFiles(t, here)
	before, _ := os.ReadDir(dir)
	for _, args := range [][]string{
		{"trace", "truncated.jsonl.gz", "--report-json=new/r.json"},
		{"trace", "requests.jsonl", "--report-json=r.json", "--workers=0"},
		{"trace", "long.jsonl", "--num-gpu-blocks=2", "--report-json=r.json"},
		{"requests.jsonl", "--router-mode=kv_router", "--report-json=r.json"},
	} {
		var out, errs bytes.Buffer
		if code := run(args, nil, &out, &errs); code == 0 || out.Len() > 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%q: exit %d\n%s%s", args, code, &out, &errs)
		}
	}
	if after, _ := os.ReadDir(dir); len(after) != len(before) {
		t.Errorf("%d files before, %d after", len(before), len(after))
	}
}

// Every flag of the reference is accepted, and none is in the help under its name in the reference.
func TestReferenceFlags(t *testing.T) {
	list, err := os.ReadFile("../../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"trace", "--help"}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	for _, name := range []string{
		"extra-engine-args", "prefill-engine-args", "decode-engine-args", "router-config", "aic-backend", "aic-system",
		"aic-backend-version", "aic-tp-size", "aic-model-path", "input-tokens", "output-tokens", "request-count",
		"arrival-interval-ms", "turns-per-session", "shared-prefix-ratio", "num-prefix-groups", "inter-turn-delay-ms",
		"num-workers", "num-prefill-workers", "num-decode-workers", "replay-concurrency", "replay-mode", "router-mode",
		"arrival-speedup-ratio", "trace-format", "trace-block-size", "trace-shared-prefix-ratio",
		"trace-num-prefix-groups", "report-json", "planner-config", "benchmark-granularity",
	} {
		if !bytes.Contains(list, []byte("`--"+name)) {
			t.Errorf("docs/coming-from.md does not list --%s", name)
		}
		root := root.New(cli.Streams{}, nil)
		flag := root.Flags().Lookup(name)
		if flag == nil {
			t.Errorf("--%s is not taken", name)
		} else if flag.Name != name && bytes.Contains(out.Bytes(), []byte("--"+name+" ")) {
			t.Errorf("the help offers --%s", name)
		}
	}
}
