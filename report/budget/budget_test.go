package budget

import "testing"

// A budget lets pass what it says.
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

// The next entry at the margin ends a baseline.
func TestReplaceEntry(t *testing.T) {
	got := replaceEntry("a: 1\nbaseline:\n  values:\n    x: 1\n# after\nb: 2\n", "baseline: new\n")
	if want := "a: 1\nbaseline: new\n# after\nb: 2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
