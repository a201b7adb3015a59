package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/replay-llm/replay/tools/benchpeer/row"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// script returns a shell script that writes a report to the given path.
func script(t *testing.T, dir, name, body string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	text := `#!/bin/sh
version=$1
echo "$0 $*" >> "$(dirname "$0")/calls"
while [ $# -gt 0 ]; do [ "$1" = --report-json ] && out=$2; shift; done
[ -z "$out" ] && exit 0
say() { echo "{\"wall_time_ms\": $1, \"completed_requests\": $2}" > "$out"; }
` + body
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// table runs the command on one row. Scripts replace this program and the reference. table returns the line of the
// row and the calls of the scripts.
func table(t *testing.T, ours, theirs string, flags ...string) (code int, line string, calls []string) {
	t.Helper()
	dir := t.TempDir()
	args := append([]string{
		"-only", "4,096.*SGLang", "-binary", script(t, dir, "ours", ours),
		"-peer", script(t, dir, "peer", theirs),
	}, flags...)
	t.Chdir("../..")
	var out, errs bytes.Buffer
	code = run(args, &out, &errs)
	lines := strings.Split(out.String(), "\n")
	for _, l := range lines {
		if strings.HasPrefix(l, "| synthetic 4,096") {
			line = l
		}
	}
	if line == "" {
		t.Fatalf("exit %d, no row in\n%s%s", code, &out, &errs)
	}
	text, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fields := strings.Fields(call)
		if strings.HasSuffix(call, "--help") {
			continue
		}
		if name := filepath.Base(fields[0]); name != "peer" {
			calls = append(calls, name)
		} else {
			calls = append(calls, fields[1])
		}
	}
	return code, line, calls
}

// Every release runs once, and this program runs once to warm up. Then this program and the fastest release run
// alternately. In this test, one release is the fastest by both figures.
func TestPairs(t *testing.T) {
	code, line, calls := table(t, `say 2 7`, `
case $version in
1.2.1) sleep 0.5; say 900 7 ;;
1.4.2) sleep 0.1; say 100 7 ;;
esac`, "-pairs", "2")
	if want := "1.4.2 1.2.1 ours ours 1.4.2 ours 1.4.2"; strings.Join(calls, " ") != want {
		t.Errorf("calls %q, want %s", calls, want)
	}
	if want := "| 2 ms / 900 ms / 100 ms | 50x [50x–50x] (1.4.2) | ≥ 40x |"; !strings.Contains(line, want) {
		t.Errorf("row %s, want %s", line, want)
	}
	// both shells need the same memory, and the sleeping shell is less than 30 times slower
	if code != 1 || !regexp.MustCompile(`\| MISSED: (command, )?memory \|$`).MatchString(line) {
		t.Errorf("exit %d, row %s, want memory missed", code, line)
	}
}

// The fastest release is selected for each figure.
func TestPairsWithTwoReleases(t *testing.T) {
	_, line, calls := table(t, `say 2 7`, `
case $version in
1.2.1) say 900 7 ;;
1.4.2) sleep 0.5; say 100 7 ;;
esac`, "-pairs", "1")
	if want := "1.4.2 1.2.1 ours ours 1.2.1 ours 1.4.2"; strings.Join(calls, " ") != want {
		t.Errorf("calls %q, want %s", calls, want)
	}
	if !regexp.MustCompile(`50x \[50x–50x\] \(1.4.2\).* \(1.2.1\)`).MatchString(line) {
		t.Errorf("row %s, want simulation against 1.4.2 and command against 1.2.1", line)
	}
}

// A release that does not finish counts as slower than any release that finishes. An unfinished release is not run
// again.
func TestUnfinished(t *testing.T) {
	_, line, calls := table(t, `say 2 7`, `
case $version in
1.2.1) exit 124 ;;
1.4.2) sleep 0.1; say 100 7 ;;
esac`, "-pairs", "1")
	if want := "1.4.2 1.2.1 ours ours 1.4.2"; strings.Join(calls, " ") != want {
		t.Errorf("calls %q, want %s", calls, want)
	}
	if want := "1.2.1 did not finish: stopped after 1m0s |"; !strings.HasSuffix(line, want) {
		t.Errorf("row %s, want %s", line, want)
	}
}

func TestNoneFinishes(t *testing.T) {
	_, line, calls := table(t, `say 2 7`, `echo out of memory >&2; exit 3`, "-pairs", "2", "-versions", "1.4.2")
	if want := "1.4.2 ours ours ours"; strings.Join(calls, " ") != want {
		t.Errorf("calls %q, want %s", calls, want)
	}
	for _, want := range []string{"| > 0.0x (", "open: simulation, command, memory", "1.4.2 did not finish: exit 3: out of memory |"} {
		if !strings.Contains(line, want) {
			t.Errorf("row %s, want %s", line, want)
		}
	}
}

func TestTimeout(t *testing.T) {
	started := time.Now()
	_, line, _ := table(t, `say 2 7`, `exec timeout $PEER_S sleep 20`, "-pairs", "1", "-timeout", "1s", "-versions", "1.2.1")
	if took := time.Since(started); took > 15*time.Second || !strings.Contains(line, "1.2.1 did not finish: stopped after 1s") {
		t.Errorf("after %v: %s", took, line)
	}
}

// The time limit of a release is long enough to be certain that it is the slower release.
func TestEnough(t *testing.T) {
	for _, c := range []struct {
		first outcome
		want  time.Duration
	}{
		{outcome{took: [2]time.Duration{command: 2 * time.Second}}, time.Minute},
		{outcome{took: [2]time.Duration{command: 20 * time.Second}}, 70 * time.Second},
		{outcome{took: [2]time.Duration{command: 20 * time.Second}, unfinished: "exit 1"}, math.MaxInt64},
	} {
		if got := c.first.patience(); got != c.want {
			t.Errorf("after %+v: %v, want %v", c.first, got, c.want)
		}
	}
}

// An error of this program fails only its row.
func TestOursFails(t *testing.T) {
	code, line, _ := table(t, `echo no such flag >&2; exit 2`, `say 100 7`, "-pairs", "1")
	if code != 1 || !strings.HasSuffix(line, "ours did not finish: exit 2: no such flag |") {
		t.Errorf("exit %d, row %s", code, line)
	}
}

func TestOtherWorkIsNoMatch(t *testing.T) {
	code, line, _ := table(t, `say 2 6`, `say 1000 7`, "-pairs", "1")
	if want := "the same work: 6 requests, 1.2.1 has 7 |"; code != 1 || !strings.HasSuffix(line, want) {
		t.Errorf("exit %d, row %s, want %s", code, line, want)
	}
}

func TestJudge(t *testing.T) {
	of := func(simulationMS, commandMS, peakMiB float64) outcome {
		return outcome{
			took:    [2]time.Duration{time.Duration(simulationMS * 1e6), time.Duration(commandMS * 1e6)},
			peakMiB: peakMiB, completed: 1,
		}
	}
	late := of(900, 1000, 500)
	late.unfinished = "time was up"
	bounds := row.Bounds{Simulation: 10, Command: 5, CommandTime: 20 * time.Millisecond, Memory: 0.1}
	for _, c := range []struct {
		ours, theirs outcome
		want         string
	}{
		{of(10, 19, 50), of(100, 100, 500), "ok"},
		{of(11, 19, 51), of(100, 90, 500), "MISSED: simulation, command, memory"},
		{of(1, 20, 50), of(100, 100, 500), "MISSED: time 20 ms"},
		{of(1, 10, 50), late, "ok; 1.2.1 did not finish: time was up"},
		{of(91, 19, 51), late, "open: simulation, memory; 1.2.1 did not finish: time was up"},
	} {
		m := &measured{
			row: row.Row{Bounds: bounds}, peers: []program{{name: "1.2.1"}},
			first: []outcome{c.theirs}, pairs: [][]pair{{{c.ours, c.theirs}}},
		}
		j := judgeRow(m)
		if got := j.String(); got != c.want {
			t.Errorf("%+v against %+v: %s, want %s", c.ours, c.theirs, got, c.want)
		}
	}
}

// The memory of a release that was stopped early is not compared with the memory of a release that finished.
func TestPeak(t *testing.T) {
	ours, early, late := outcome{peakMiB: 5}, outcome{peakMiB: 60, unfinished: "time was up"}, outcome{peakMiB: 100}
	for _, c := range []struct {
		first   []outcome
		theirs  float64
		atLeast bool
	}{
		{[]outcome{early, late}, 100, false},
		{[]outcome{late, {peakMiB: 90}}, 90, false},
		{[]outcome{early, early}, 60, true},
	} {
		m := &measured{first: c.first, pairs: make([][]pair, 2)}
		m.chooseFastest()
		m.pairs[m.fastest[command]] = []pair{{ours, c.first[m.fastest[command]]}}
		if o, theirs, atLeast := m.peaks(); o != 5 || theirs != c.theirs || atLeast != c.atLeast {
			t.Errorf("%+v: %v against %v, at least: %v", c, o, theirs, atLeast)
		}
	}
}

// The measured peak is the peak of the command, not of the program that measures.
func TestPeakIsTheCommandsOwn(t *testing.T) {
	ballast := bytes.Repeat([]byte{1}, 100<<20)
	dir := t.TempDir()
	t.Chdir("../..")
	if err := stopwatch.Build(t.Context(), filepath.Join(dir, "launch"), "./tools/benchpeer/launch"); err != nil {
		t.Fatal(err)
	}
	p := program{name: "small", argv: []string{script(t, dir, "small", "say 2 7")}, timeout: time.Minute}
	o, err := p.run(t.Context(), dir, nil)
	if err != nil || o.unfinished != "" || o.peakMiB <= 0 || o.peakMiB > 30 || o.completed != 7 {
		t.Errorf("%+v, %v; want a few MiB beside our %d", o, err, len(ballast)>>20)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"-pairs 0", "-pairs is 0, must be at least 1"},
		{"-only nothing", `-only "nothing" matches no row`},
		{"-scale -only x", "-only chooses rows of the table"},
		{"trace.jsonl", `argument "trace.jsonl", expected flags only, or sweep, outputs or tile first`},
		{"tile -n 0 a b", "expected -n of at least 1"},
	} {
		var out, errs bytes.Buffer
		if code := run(strings.Fields(c.args), &out, &errs); code != 2 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %s; want %s", c.args, code, &errs, c.want)
		}
	}
}

func TestTileCommand(t *testing.T) {
	to := filepath.Join(t.TempDir(), "long.jsonl")
	var out, errs bytes.Buffer
	from, err := row.Sessions.Path()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"tile", "-n", fmt.Sprint(2000), from, to}
	if code := run(args, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	text, err := os.ReadFile(to)
	if n := bytes.Count(text, []byte("\n")); err != nil || n != 2000 {
		t.Errorf("%d lines, %v; want 2000", n, err)
	}
}
