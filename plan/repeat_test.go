package plan

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/table"
)

// repeatedGrid returns a grid of two traces and two routers.
func repeatedGrid() *Grid {
	return &Grid{Axes: []Axis{{Name: "trace", Values: []string{"a", "b"}}, {Name: "router", Values: []string{"x", "y"}}}}
}

// ttftOutcomes returns outcomes for every cell and sample, with the TTFT that at returns; 0: the cell fails.
func ttftOutcomes(g *Grid, n int, at func(cell, sample int) float64) []Outcome {
	var all []Outcome
	for _, c := range RepeatCells(g.Cells(), n) {
		if ms := at(c.Index, c.Sample); ms != 0 {
			all = append(all, Outcome{Report: json.RawMessage(fmt.Sprintf(`{"mean_ttft_ms":%v,"output_throughput_tok_s":%v}`, ms, 1000/ms))})
		} else {
			all = append(all, Outcome{Reason: "did not fit"})
		}
	}
	return all
}

// Student's t at 4 degrees of freedom is 2.776. The mean of 5 values has a fifth of their variance. The difference
// between the mean and one more value has six fifths.
func TestIntervalByHand(t *testing.T) {
	i := newInterval([]float64{1, 2, 3, 4, 5})
	for name, c := range map[string]struct {
		got   Bounds
		share float64
	}{"confidence": {i.Confidence, 0.2}, "prediction": {i.Prediction, 1.2}} {
		by := 2.7764451 * math.Sqrt(2.5*c.share)
		if i.Mean != 3 || math.Abs(c.got.High-3-by) > 1e-6 || math.Abs(3-c.got.Low-by) > 1e-6 {
			t.Errorf("%s: mean %v and %+v, want 3 and %v to both sides", name, i.Mean, c.got, by)
		}
	}
}

// For 95 % of 8,000 samples of a normal distribution, the confidence interval contains the mean, and the prediction
// interval contains the next value.
func TestIntervalsCover(t *testing.T) {
	const trials, mean, std = 8_000, 250.0, 40.0
	for _, n := range []int{2, 3, 5, 10, 30} {
		rand := rand.New(rand.NewPCG(1, uint64(n)))
		draw := func() float64 { return mean + std*rand.NormFloat64() }
		values := make([]float64, n)
		var confidence, prediction int
		for range trials {
			for i := range values {
				values[i] = draw()
			}
			i := newInterval(values)
			if i.Confidence.Low <= mean && mean <= i.Confidence.High {
				confidence++
			}
			if next := draw(); i.Prediction.Low <= next && next <= i.Prediction.High {
				prediction++
			}
		}
		// Three standard errors are 0.73 percentage points.
		for name, count := range map[string]int{"confidence": confidence, "prediction": prediction} {
			if share := float64(count) / trials; math.Abs(share-0.95) > 0.0073 {
				t.Errorf("%d values: %s intervals cover %.2f %%, want 95 %%", n, name, 100*share)
			}
		}
	}
}

// A small but steady change is a win although the workloads differ by far more. Each trace has a separate first cell.
// If larger values are better, a decrease is a loss.
func TestPairedCells(t *testing.T) {
	g := repeatedGrid()
	workload := []float64{100, 100, 300, 150, 500, 220}
	outcomes := ttftOutcomes(g, 5, func(cell, sample int) float64 {
		by := []float64{0, -3, 1000, 1004}[cell]
		return workload[sample] + by + 0.2*float64(sample%2)*float64(cell%2)
	})
	results, err := NewResults(g, outcomes, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "win", "", "lose"} {
		s := results.rows[i].findResampled("mean_ttft_ms")
		if s == nil || s.Verdict != want || (s.Change == nil) != (want == "") || s.Repeats != 5 {
			t.Fatalf("cell %d: %+v, want %q", i, s, want)
		}
		if c, p := s.Value.Confidence, s.Value.Prediction; p.High-p.Low < 100 || c.Low <= p.Low || c.High >= p.High {
			t.Errorf("cell %d: %+v, want a prediction interval as wide as the workloads, and the confidence interval in it", i, s.Value)
		}
	}
	if s := results.rows[1].findResampled("mean_ttft_ms").Change; math.Abs(s.Mean+2.88) > 1e-9 || s.Prediction.High > -2.5 {
		t.Errorf("change %+v, want about -2.9", s)
	}
	if s := results.rows[3].findResampled("output_throughput_tok_s"); s.Verdict != "lose" {
		t.Errorf("%+v, want less output to lose", s)
	}
	var csv, object, text strings.Builder
	for _, err := range []error{results.Table().WriteCSV(&csv), results.WriteJSON(&object), results.WriteText(&text)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, part := range map[string]string{csv.String(): "resampled_mean_ttft_ms_verdict", object.String(): `"resampled":{"mean_ttft_ms":{"repeats":5,`, text.String(): "prediction"} {
		if !strings.Contains(name, part) {
			t.Errorf("no %q in\n%s", part, name)
		}
	}
	for _, key := range []string{"mean", "confidence_low", "confidence_high", "prediction_low", "change", "change_confidence_low", "change_prediction_high"} {
		if !slices.ContainsFunc(results.Table().Columns, func(c table.Column) bool { return c.Name == "resampled_mean_ttft_ms_"+key }) {
			t.Errorf("no %s in %+v", key, results.Table().Columns)
		}
	}
	if all := results.Table(); len(all.Rows[0]) != len(all.Columns) {
		t.Errorf("%d cells in a row, must be %d as there are columns", len(all.Rows[0]), len(all.Columns))
	}
}

// A resample that fails is reported, and the other resamples are compared without it. A single resample is not
// compared.
func TestFailedResamples(t *testing.T) {
	g := repeatedGrid()
	results, err := NewResults(g, ttftOutcomes(g, 3, func(cell, sample int) float64 {
		if cell == 1 && sample == 2 || cell == 3 && sample > 1 {
			return 0
		}
		return float64(100 + cell)
	}), false)
	if err != nil {
		t.Fatal(err)
	}
	if s := results.rows[1].findResampled("mean_ttft_ms"); s.Repeats != 2 || s.Verdict != "lose" || results.rows[1].reason != "resample 2: did not fit" {
		t.Errorf("%+v, %q", s, results.rows[1].reason)
	}
	if s := results.rows[3].findResampled("mean_ttft_ms"); s != nil || results.Incomplete() != 2 {
		t.Errorf("%+v, %d incomplete, want nothing of one resample and 2", s, results.Incomplete())
	}
}

// If the first cell cannot be run, the next cell of the trace is the base of the comparison.
func TestFirstCellThatRuns(t *testing.T) {
	g := &Grid{Axes: []Axis{{Name: "workers", Values: []string{"0", "1", "2"}}}}
	results, err := NewResults(g, ttftOutcomes(g, 3, func(cell, sample int) float64 { return float64(cell * (100 + sample)) }), false)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 2, 2} {
		if got := len(results.rows[i].resampled); got != want {
			t.Errorf("cell %d: %d values, want %d", i, got, want)
		}
	}
	if base, next := results.rows[1].resampled[1], results.rows[2].resampled[1]; base.Change != nil || next.Verdict != "lose" {
		t.Errorf("%+v, %+v", base, next)
	}
}

// A resample is a separate task.
func TestSampleKeys(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range RepeatCells(repeatedGrid().Cells(), 2) {
		task, err := NewTask(&c, "v", func(Setting) (string, error) { return "", nil })
		if err != nil {
			t.Fatal(err)
		}
		seen[task.Key()] = true
	}
	if len(seen) != 12 {
		t.Errorf("%d keys, want 12", len(seen))
	}
}
