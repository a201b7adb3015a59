package calibrate

import (
	"fmt"
	"io"
)

// identified is the spread up to which a parameter means something by itself.
const identified = 0.10

// WriteText writes r for people to read.
func (r *Result) WriteText(w io.Writer) error {
	t := &lineWriter{w: w}
	t.line("Calibrated to %s: %s, %d simulations", r.Run, r.Profile.Form, r.Simulations)
	for _, n := range r.Notes {
		t.line("  assumed: %s", n)
	}
	if r.Preemptions > 0 {
		t.line("  %d preemptions simulated", r.Preemptions)
	}
	t.line("")
	t.line("Parameter             Value        Spread")
	values := r.parameters()
	for i, s := range r.Profile.Spreads {
		word := ""
		if s.Share > identified {
			word = "  not identified: do not transfer"
		}
		t.line("%-20s  %-10.4g  %6.1f %%%s", s.Name, values[i], 100*s.Share, word)
	}
	t.line("")
	t.line("Errors in %%, simulated to measured")
	t.line("%-12s %-14s %-6s %5s %12s %7s %7s %7s %7s %9s", "Fitted on", "Judged on", "Metric", "n", "measured", "mean", "p50", "p90", "p99", "request")
	for _, c := range r.Checks {
		name := c.Judged
		if c.HeldOut {
			name += " *"
		}
		for _, e := range c.Errors {
			t.line("%-12s %-14s %-6s %5d %10.4f s %+7.2f %+7.2f %+7.2f %+7.2f %9.2f",
				c.Fitted, name, e.Metric, e.Requests, e.Measured, 100*e.Mean, 100*e.P50, 100*e.P90, 100*e.P99, 100*e.Each)
		}
	}
	t.line("* held out: not fitted to. request: median size of the error of single requests.")
	t.line("")
	r.writeRange(t)
	r.writeVerdict(t)
	return t.err
}

func (r *Result) writeRange(t *lineWriter) {
	t.line("Trusted range (1st to 99th percentile of the passes fitted to, by time)")
	for _, q := range trustedQuantities(r.Profile.Trusted) {
		t.line("%-32s %10.0f to %10.0f", q.name, q.in.Least, q.in.Most)
	}
	e := r.Profile.Engine
	t.line("max_num_seqs %d, max_num_batched_tokens %d, vLLM %s on %s: any other is outside", e.MaxSeqs, e.MaxBatchedTokens, e.Version, orUnknown(e.GPU))
}

func (r *Result) writeVerdict(t *lineWriter) {
	held := false
	for _, c := range r.Checks {
		held = held || c.HeldOut
	}
	switch {
	case !held:
		t.line("Nothing was held out: --holdout 0.5 shows how well the profile predicts.")
	case r.Holds():
		t.line("Held-out means of TTFT, TPOT and E2E are within 5 %%.")
	default:
		t.line("Held-out means of TTFT, TPOT and E2E are NOT within 5 %%: do not rely on this profile.")
	}
}

// parameters returns the values of the fitted parameters, as Spreads has them.
func (r *Result) parameters() []float64 {
	p := &r.Profile.Parameters
	byName := map[string]float64{
		"weights_s": p.Weights, "token_s": p.Token, "context_s": p.Context, "mixed_context_s": p.Mixed, "pair_s": p.Pair, "mixed_base_s": p.MixedBase,
	}
	var all []float64
	for _, s := range r.Profile.Spreads {
		all = append(all, byName[s.Name])
	}
	return all
}

func orUnknown(name string) string {
	if name == "" {
		return "an unknown GPU"
	}
	return name
}

// teller writes lines and keeps the first error.
type lineWriter struct {
	w   io.Writer
	err error
}

func (t *lineWriter) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}
