package classes

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/report/requests"
)

// Jain's index is 1 if all shares are equal, 1/n if one class has all service, and does not depend on the unit.
func TestJainIndex(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{
		{nil, 1}, {[]float64{0, 0}, 1}, {[]float64{3}, 1}, {[]float64{2, 2, 2}, 1}, {[]float64{5, 0, 0, 0}, 0.25},
		{[]float64{1, 2}, 0.9}, {[]float64{100, 200}, 0.9},
	} {
		if got := jainIndex(c.shares); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("of %v: %v, want %v", c.shares, got, c.want)
		}
	}
}

// Each class counts its requests, answered or not. A class without requests has no row.
func TestSummarize(t *testing.T) {
	row := func(class string, ttft, e2e float64, tokens int, verdict requests.Verdict) requests.Row {
		u := requests.Unknown()
		r := requests.Row{Class: class, TTFT: requests.MS(ttft), TPOT: u, E2E: requests.MS(e2e), Output: 10, Tokens: tokens, SLO: verdict}
		if tokens == 0 {
			r.TTFT, r.E2E, r.Admit = u, u, u
		}
		return r
	}
	rows := []requests.Row{
		row("chat", 10, 1000, 10, requests.Met), row("chat", 30, 1000, 10, requests.Missed), row("chat", 0, 0, 0, requests.Missed),
		row("batch", 50, 2000, 10, requests.Unjudged),
	}
	s := Summarize([]string{"default", "batch", "chat"}, rows, 2000)
	if len(s.Classes) != 2 || s.Classes[0].Name != "batch" || s.Classes[0].Judged {
		t.Fatalf("%+v, want batch, which is not judged, and chat", s.Classes)
	}
	chat := s.Classes[1]
	if chat.Requests != 3 || chat.Completed != 2 || chat.TTFT.Mean != 20 || chat.Speed != 10 || chat.Attainment != 1.0/3 || chat.GoodputRPS != 0.5 {
		t.Errorf("%+v, want 2 of 3 answered, at 10 tokens/s, and one that met its objectives", chat)
	}
	if s.Classes[0].Speed != 5 || s.Fairness != 0.9 {
		t.Errorf("speed %v and fairness %v, want 5 and 0.9", s.Classes[0].Speed, s.Fairness)
	}
	for _, line := range s.Lines() {
		if len(line) > 80 {
			t.Errorf("%q is longer than 80 columns", line)
		}
	}
	if lines := s.Lines(); !strings.Contains(lines[2], "2/3") || !slices.Contains(lines, "Fairness between classes (Jain): 0.900") {
		t.Errorf("%q", lines)
	}
}
