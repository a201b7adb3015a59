package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program that is built with the tag offline prints what the whole one does,
// says what it lacks, and has nothing in it that talks to a cluster.
func TestOfflineProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: builds a program, which takes seconds")
	}
	here, _ := os.Getwd()
	program := filepath.Join(t.TempDir(), "replay")
	if out, err := exec.Command("go", "build", "-tags", "offline", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	linked, err := exec.Command("go", "list", "-deps", "-tags", "offline", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	enterFiles(t, here)

	for _, line := range []string{
		"trace requests.jsonl --digest --output=json",
		"concurrency sessions.jsonl --trace-block-size=64 --max-in-flight=2 --workers=2 --router=kv --block-size=32",
		"requests.jsonl --trace-block-size 64 --num-prefill-workers 1 --num-decode-workers 2 --report-json=report.json " +
			`--prefill-engine-args {"worker_type":"prefill"} --decode-engine-args {"worker_type":"decode"}`,
		"trace requests.jsonl --trace-block-size=64 --engine=sglang --requests=rows.parquet --slo=ttft=500ms",
		"sweep --trace requests.jsonl --grid workers=1,2 --grid block-size=64,512 --output=csv",
		"traces inspect requests.jsonl",
		"trace requests.jsonl --max-in-flight=3",
		"tracs",
	} {
		var out, errs bytes.Buffer
		code := run(strings.Fields(line), strings.NewReader(""), &out, &errs)
		want := cleanText(out.String() + errs.String())
		if got, gotCode := ofProgram(t, program, line); got != want || gotCode != code {
			t.Errorf("%s\nexit %d:\n%s\nwant exit %d:\n%s", line, gotCode, got, code, want)
		}
	}

	for line, name := range map[string]string{
		"frontend --http-port 0": "frontend", "worker --help": "worker", "sweep work --nats=nats://x": "work",
		"trace requests.jsonl --mode=cluster": "--mode=cluster",
	} {
		want := "replay: " + name + ": left out of this program (build tag offline), want one built without the tag\n"
		if got, code := ofProgram(t, program, line); got != want || code != exitUsage {
			t.Errorf("%s\nexit %d: %s, want exit %d: %s", line, code, got, exitUsage, want)
		}
	}

	for name := range strings.Lines(string(linked)) {
		for _, network := range []string{
			"github.com/nats-io/", "go.etcd.io/", "google.golang.org/grpc", "go.opentelemetry.io/", "github.com/prometheus/",
			"github.com/replay-llm/replay/live/drt", "github.com/replay-llm/replay/live/engine",
		} {
			if strings.HasPrefix(name, network) {
				t.Errorf("the program has %s in it", name)
			}
		}
	}
}

// ofProgram is what a program prints, without what differs between runs, and its
// exit code.
func ofProgram(t *testing.T, program, line string) (string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(program, strings.Fields(line)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cleanText(out.String() + errs.String()), cmd.ProcessState.ExitCode()
}
