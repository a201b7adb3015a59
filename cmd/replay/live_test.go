package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
	"github.com/replay-llm/replay/replay/collector"
)

// partialReport reads a report and checks that its run ended early.
func partialReport(t *testing.T, text []byte) *collector.Report {
	t.Helper()
	r, err := collector.ReadJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if online, _ := r.Get("online").Value().([]collector.Field); !slices.Contains(online, collector.Of("partial", true)) {
		t.Errorf("entries are %v, want online with partial", r.Fields())
	}
	return r
}

// hour returns the command line of an hour's workload in real time.
func hour() []string {
	return []string{
		"trace", "--input-tokens", "64", "--output-tokens", "4", "--request-count", "3600",
		"--arrival-interval-ms", "1000", "--mode", "online", "--output", "json",
	}
}

// The deadline ends a run with a partial report and exit code 3.
func TestDeadline(t *testing.T) {
	var out, errs bytes.Buffer
	code := run(append(hour(), "--deadline", "300ms"), strings.NewReader(""), &out, &errs)
	if code != cli.ExitDiffer || !strings.Contains(errs.String(), "the deadline passed") {
		t.Errorf("exit %d: %s", code, &errs)
	}
	if r := partialReport(t, out.Bytes()); r.Requests < 1 {
		t.Errorf("%d requests in the report", r.Requests)
	}
}

// A signal ends a run with a partial report and the exit code of the signal.
func TestSignalInRealTime(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: cli.ExitInterrupted, syscall.SIGTERM: cli.ExitTerminated} {
		cmd := exec.Command(program, hour()...)
		cmd.Env = append(os.Environ(), clitest.AsProgram+"=1", "REPLAY_PROGRESS=lines")
		var out bytes.Buffer
		cmd.Stdout = &out
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(errs)
		if first, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(first, "progress: ") { // progress shows completed requests
			t.Errorf("%q, %v", first, err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(lines)
		_ = cmd.Wait() // the exit code is checked below
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%v: exit %d, want %d: %s", signal, code, want, rest)
		}
		partialReport(t, out.Bytes())
	}
}

// Observers of a run also work in real time.
func TestRecordsInRealTime(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, pools := range [][]string{{"--workers", "2"}, {"--prefill-workers", "1", "--decode-workers", "2", "--online-disagg"}} {
		var out, errs bytes.Buffer
		args := append([]string{
			"concurrency", "--max-in-flight", "4", "--input-tokens", "300", "--output-tokens", "5", "--request-count", "12", "--turns-per-session", "2",
			"--shared-prefix-ratio", "0.5", "--num-prefix-groups", "2", "--router", "kv", "--mode", "online", "--speedup-ratio", "10",
			"--requests", "rows.csv", "--timeline", "timeline.json", "--slo", "ttft=1h",
		}, pools...)
		if code := run(args, strings.NewReader(""), &out, &errs); code != cli.ExitDone {
			t.Fatalf("exit %d: %s", code, &errs)
		}
		rows, err := os.ReadFile("rows.csv")
		if err != nil || bytes.Count(rows, []byte("\n")) != 25 {
			t.Errorf("%d lines of requests, error %v, want 25", bytes.Count(rows, []byte("\n")), err)
		}
		if st, err := os.Stat("timeline.json"); err != nil || st.Size() == 0 {
			t.Errorf("timeline: %v", err)
		}
	}
}
