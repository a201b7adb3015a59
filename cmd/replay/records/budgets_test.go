package records

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/report/budget"
)

const exampleBudgets = `# What the service promises.
run: trace a.jsonl --workers 2 # as in production
budgets:
  p99_ttft_ms: +2% # the promise
  completed_requests: exact
  max_e2e_latency_ms: max 2000
`

func writeBudgets(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "budgets.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readTestBudgets(t *testing.T, path string) *budget.File {
	t.Helper()
	f, err := readBudgets(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func fastRun() *budget.Run {
	return &budget.Run{Name: "fast", Lifecycles: "aa", Values: map[string]float64{
		"p99_ttft_ms": 100, "completed_requests": 10, "max_e2e_latency_ms": 1999, "wall_time_ms": 3, "mean_itl_ms": 1e-9,
	}}
}

// A baseline is written once and replaced by the next baseline. The rest of the file is unchanged.
func TestBudgetsUpdate(t *testing.T) {
	path := writeBudgets(t, exampleBudgets+"\nbehaviour: exact")
	if _, err := readTestBudgets(t, path).Judge(fastRun()); err == nil || !strings.Contains(err.Error(), ":4: p99_ttft_ms: no baseline") {
		t.Errorf("no baseline: %v", err)
	}
	for _, lifecycles := range []string{"aa", "bb"} {
		run := fastRun()
		run.Lifecycles = lifecycles
		if err := readTestBudgets(t, path).Update(run); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := os.ReadFile(path)
	if want := exampleBudgets + "\nbehaviour: exact\n\nbaseline: # by replay check --update\n  lifecycles: bb\n  values:\n" +
		"    completed_requests: 10\n    max_e2e_latency_ms: 1999\n    mean_itl_ms: 1e-09\n    p99_ttft_ms: 100\n"; string(text) != want {
		t.Errorf("the file is\n%s\nwant\n%s", text, want)
	}
	f := readTestBudgets(t, path)
	if f.Baseline.Values["mean_itl_ms"] != 1e-9 || f.Baseline.Lifecycles != "bb" || strings.Join(f.Command, " ") != "trace a.jsonl --workers 2" {
		t.Errorf("%+v, %v", f.Baseline, f.Command)
	}
}

// All output forms contain the outcome.
func TestBudgetsJudge(t *testing.T) {
	path := writeBudgets(t, exampleBudgets)
	if err := readTestBudgets(t, path).Update(fastRun()); err != nil {
		t.Fatal(err)
	}
	slow := fastRun()
	slow.Values["p99_ttft_ms"], slow.Values["max_e2e_latency_ms"], slow.Lifecycles = 103, 2001, "bb"
	for _, c := range []struct {
		run      *budget.Run
		exceeded int
		changed  budget.Change
		behaves  bool
	}{
		{fastRun(), 0, budget.Unchanged, true}, {slow, 2, budget.Changed, false},
		{&budget.Run{Values: fastRun().Values}, 0, budget.Unknown, true},
		{&budget.Run{Lifecycles: "cc", Values: fastRun().Values}, 0, budget.Changed, false},
	} {
		o, err := readTestBudgets(t, path).Judge(c.run)
		if err != nil || o.Exceeded() != c.exceeded || o.Changed != c.changed || o.Behaves() != c.behaves {
			t.Errorf("%+v: %d exceeded, %v, %v (%v)", c.run, o.Exceeded(), o.Changed, o.Behaves(), err)
		}
	}
	o, err := readTestBudgets(t, path).Judge(slow)
	if err != nil {
		t.Fatal(err)
	}
	var text, github, junit strings.Builder
	for _, err := range []error{o.WriteText(&text), o.WriteGitHub(&github, o.File.Path), o.WriteJUnit(&junit)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"p99_ttft_ms         +2%       100       103    +3 (+3.00%)  EXCEEDED", "completed_requests  exact     10        10     0            ok", "behaviour: changed"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("no %q in\n%s", part, text.String())
		}
	}
	want := ",line=4,title=budget of p99_ttft_ms exceeded::p99_ttft_ms is 103, was 100: +3 (+3.00%25), budget +2%25\n"
	if !strings.Contains(github.String(), want) || strings.Count(github.String(), "::error file=") != 3 {
		t.Errorf("%s\nwant in it %s", github.String(), want)
	}
	var suites struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(junit.String()), &suites); err != nil || suites.Suites[0].Tests != 4 || suites.Suites[0].Failures != 3 {
		t.Errorf("%v\n%s", err, junit.String())
	}
}

// Invalid files are rejected with the line number.
func TestBudgetsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"budgets:\n  a: +x\n":                   ":2: a: \"+x\", must be exact",
		"budgets:\n":                            ":1: must be names of values with budgets",
		"budget:\n  a: exact\n":                 ":1: budget: no such key of a file of budgets, must be run, behaviour, budgets or baseline, did you mean budgets?",
		"behaviour: odd\nbudgets: {a: exact}\n": ":1: behaviour: odd: must be exact or free",
		"run: a 'b'\nbudgets: {a: exact}\n":     ":1: run: quotes",
		"run: [1, {}]\nbudgets: {a: exact}\n":   ":1: run: must be a command line",
		"baseline: 3\nbudgets: {a: exact}\n":    ":1: must be the name of a report",
		"baseline: no.json\nbudgets: {a: +1}\n": ":1: baseline: open ",
		"baseline: {values: {a: x}}":            ":1: a: x: must be a number",
		"run: x\n---\nbudget: {}\n":             ":3: budget: no such key",
		"{}":                                    "no budgets, must have at least one",
		"a: [":                                  ":1:",
		"- a\n":                                 ":1: must be a file of budgets, with run",
	} {
		if _, err := readBudgets(writeBudgets(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
}
