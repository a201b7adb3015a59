package docs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/accuracy"
)

// The errors in docs/accuracy.md equal the output of make accuracy, over all rows.
func TestQuotedErrors(t *testing.T) {
	e, err := accuracy.Load()
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, "accuracy.md")
	sheet := func(r *accuracy.Sheet) *float64 { return &r.TPOT.Mean }
	half, load := halves(e), e.OfFits(func(r *accuracy.Fit) *float64 { return &r.TPOT.Mean })
	itl := accuracy.SpreadOf(e.Sheets, accuracy.Other, func(r *accuracy.Sheet) *float64 {
		if r.ITL == nil {
			return nil
		}
		return r.ITL.P99
	})
	tpot := accuracy.SpreadOf(e.Sheets, accuracy.DenseOnOneGPU, func(r *accuracy.Sheet) *float64 { return r.TPOT.P99 })
	for _, c := range []struct {
		spread accuracy.Spread
		form   string
	}{
		{accuracy.SpreadOf(e.Sheets, accuracy.DenseOnOneGPU, sheet), "| %+.1f to %+.1f %% |"},
		{accuracy.SpreadOf(e.Sheets, accuracy.Other, sheet), "| %+.1f to %+.1f %% |"},
		{half, "| %+.1f to %+.1f %% on the other half"},
		{load, "| %+.1f to %+.1f %% |"},
		{itl, "p99 ITL %+.1f to %+.1f %%"},
		{tpot, "p99 TPOT %+.1f to %+.1f %%"},
	} {
		if want := fmt.Sprintf(c.form, c.spread.Least, c.spread.Most); c.spread.Rows == 0 || !strings.Contains(page, want) {
			t.Errorf("docs/accuracy.md quotes %d rows otherwise, want %q", c.spread.Rows, want)
		}
	}
}

// halves returns the spread of the mean TPOT errors of fits by vLLM's own rules, on the held-out half of a run.
func halves(e *accuracy.Errors) accuracy.Spread {
	var own accuracy.Errors
	for _, f := range e.Fits {
		if strings.Contains(f.Judged, "same run") && strings.HasPrefix(f.Rules, "vllm-") {
			f.OtherLoad = true
			own.Fits = append(own.Fits, f)
		}
	}
	return own.OfFits(func(r *accuracy.Fit) *float64 { return &r.TPOT.Mean })
}
