package budget

import (
	"strings"
	"testing"
)

// A budget accepts exactly the values in its range.
func TestBudgets(t *testing.T) {
	for _, c := range []struct {
		text     string
		baseline float64
		pass     []float64
		exceed   []float64
	}{
		{"exact", 100, []float64{100}, []float64{100.0000001, 99}},
		{"exact", 0, []float64{0}, []float64{1}},
		{"+2%", 100, []float64{102, 100, 5}, []float64{102.01}},
		{"-3%", 100, []float64{97, 1000}, []float64{96.99}},
		{"+-1%", 100, []float64{99, 101}, []float64{98.9, 101.1}},
		{"±1%", 100, []float64{99, 101}, []float64{98.9, 101.1}},
		{"+0.5", 10, []float64{10.5, 0}, []float64{10.6}},
		{"-0.5", 10, []float64{9.5, 99}, []float64{9.4}},
		{"+2%", 0, []float64{0, -1}, []float64{0.001}},
		{"+2%", -100, []float64{-98, -101}, []float64{-97}},
		{"max 2000", 0, []float64{2000, -5}, []float64{2001}},
		{"min 10", 0, []float64{10, 11}, []float64{9}},
	} {
		b, err := Parse("x", c.text)
		if err != nil {
			t.Fatal(err)
		}
		least, most := b.allowedRange(c.baseline)
		for _, v := range c.pass {
			if v < least || v > most {
				t.Errorf("%s of %v: %v exceeds %v to %v", c.text, c.baseline, v, least, most)
			}
		}
		for _, v := range c.exceed {
			if v >= least && v <= most {
				t.Errorf("%s of %v: %v passes %v to %v", c.text, c.baseline, v, least, most)
			}
		}
	}
	for _, text := range []string{"", "2%", "+", "+x%", "max", "max x", "much 3", "+-", "+1e999", "exact 2 3"} {
		if _, err := Parse("x", text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// The next entry without indentation ends a baseline.
func TestReplaceEntry(t *testing.T) {
	got := replaceEntry("a: 1\nbaseline:\n  values:\n    x: 1\n# after\nb: 2\n", "baseline: new\n")
	if want := "a: 1\nbaseline: new\n# after\nb: 2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// The table for pull requests shows the verdict, each budget and the outcome of requests. Text in a cell is escaped.
func TestWriteMarkdown(t *testing.T) {
	o := &Outcome{
		File: &File{Path: "a|b.yaml", Exact: true}, Changed: Changed,
		Lines: []Line{
			{Budget: Budget{Key: "p99_ttft_ms", Text: "+2%"}, HasBaseline: true, Baseline: 20, Value: 25, Exceeded: true},
			{Budget: Budget{Key: "mean_itl_ms", Text: "max 9"}, Value: 8.5},
		},
	}
	want := "### replay check a\\|b.yaml: 1 of 2 budgets exceeded\n\n" +
		"| Metric | Budget | Baseline | Value | Change | |\n| --- | --- | ---: | ---: | ---: | --- |\n" +
		"| `p99_ttft_ms` | +2% | 20 | 25 | +5 (+25.00%) | **exceeded** |\n" +
		"| `mean_itl_ms` | max 9 |  | 8.5 |  | ok |\n" +
		"\nBehaviour changed: " + changedMessage + ".\n\n"
	var b strings.Builder
	if err := o.WriteMarkdown(&b); err != nil || b.String() != want {
		t.Errorf("%v, got\n%s\nwant\n%s", err, &b, want)
	}
	o.Lines[0].Exceeded = false
	if got := o.verdict(); got != "all budgets hold, and requests went other ways" {
		t.Error(got)
	}
	if o.File.Exact = false; o.verdict() != "all budgets hold" {
		t.Error(o.verdict())
	}
}
