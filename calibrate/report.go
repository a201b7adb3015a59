package calibrate

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// identified is the largest spread of a parameter that the runs determine separately from the other parameters.
const identified = 0.10

// WriteText writes r as readable text.
func (r *Result) WriteText(w io.Writer) error {
	var t bytes.Buffer
	line := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		t.WriteString(terminal.WrapText(text+"\n", 2))
	}
	line("Calibrated to %s: %s, %d simulations", r.Run, r.Profile.Form, r.Simulations)
	for _, n := range r.Notes {
		line("  assumed: %s", n)
	}
	if r.Preemptions > 0 {
		line("  %d preemptions simulated", r.Preemptions)
	}
	line("")
	line("Parameter             Value        Spread")
	for _, p := range r.Parameters() {
		word := ""
		if p.Loose {
			word = "  not identified: do not transfer"
		}
		line("%-20s  %-10.4g  %6.1f %%%s", p.Name, p.Value, 100*p.Spread, word)
	}
	if len(r.Kinds) > 0 {
		var kinds []string
		for _, k := range r.Kinds {
			kinds = append(kinds, fmt.Sprintf("%.1f %% %s", 100*k.Share, k.Kind))
		}
		line("Time of passes by kind: %s", strings.Join(kinds, ", "))
	}
	if p := &r.Profile.Parameters; p.Experts > 0 {
		line("Experts: %.4g s to read all of them, of which a token is sent to %.3g %%", p.Experts, 100*p.ExpertShare)
	}
	if l := r.Profile.Link; l != nil {
		t.WriteString(terminal.WrapText(describeLink(l), 2))
	}
	if w := r.Profile.Way; w != nil {
		line("Way of the client: %.1f ms (+- %.1f) before the first token, %.3f ms (+- %.3f) for each further one", 1000*w.First, 1000*w.FirstSpread, 1000*w.Token, 1000*w.TokenSpread)
	}
	line("")
	line("Errors in %%, simulated to measured")
	line("  %-6s %6s %12s %7s %7s %7s %7s %9s", "Metric", "n", "measured", "mean", "p50", "p90", "p99", "request")
	for _, c := range r.Checks {
		name := c.Judged
		if c.HeldOut {
			name += " *"
		}
		line("fitted on %s, judged on %s", c.Fitted, name)
		for _, e := range c.Errors {
			line("  %-6s %6d %10.4f s %+7.2f %+7.2f %+7.2f %+7.2f %9.2f",
				e.Metric, e.Requests, e.Measured, 100*e.Mean, 100*e.P50, 100*e.P90, 100*e.P99, 100*e.Each)
		}
	}
	line("* held out: not fitted to. request: median size of the error of single requests.")
	line("")
	r.writeRange(line)
	verdict, _ := r.Verdict()
	line("%s", verdict)
	_, err := w.Write(t.Bytes())
	return err
}

// Parameter is a fitted parameter. Spread is a share of Value.
type Parameter struct {
	Name          string
	Value, Spread float64
	Loose         bool // the runs do not determine the parameter
}

// Parameters returns the fitted parameters.
func (r *Result) Parameters() (all []Parameter) {
	for _, s := range r.Profile.Spreads {
		all = append(all, Parameter{s.Name, valueOf(&r.Profile, s.Name), s.Share, s.Share > identified})
	}
	return all
}

// valueOf returns the value of a fitted parameter.
func valueOf(p *timing.Profile, name string) float64 {
	switch name {
	case frontEndFirst:
		return p.Way.First
	case frontEndToken:
		return p.Way.Token
	}
	return *parameterOf(&p.Parameters, name)
}

func (r *Result) writeRange(line func(format string, args ...any)) {
	line("Trusted range (1st to 99th percentile of the passes fitted to, by time)")
	for _, q := range trustedQuantities(r.Profile.Trusted) {
		line("%-32s %10.0f to %10.0f", q.name, q.in.Least, q.in.Most)
	}
	e := r.Profile.Engine
	gpu := cmp.Or(e.GPU, "an unknown GPU")
	switch e.Kind {
	case timing.SGLang:
		line("max_running_requests %d, chunked_prefill_size %d, SGLang on %s: any other is outside", e.MaxSeqs, e.MaxBatchedTokens, gpu)
		return
	case timing.TRTLLM:
		line("max_batch_size %d, max_num_tokens %d, TensorRT-LLM on %s: any other is outside", e.MaxSeqs, e.MaxBatchedTokens, gpu)
		line("Rules: %s, %s.", e.Rules, engines.NotCompared)
		return
	}
	line("%s %d, %s %d, vLLM %s on %s: any other is outside", vllm.SeqsKey, e.MaxSeqs, vllm.TokensKey, e.MaxBatchedTokens, e.Version, gpu)
}

// Verdict returns a text about whether r holds, with the reason. The result holds is nil if no held-out set counts.
func (r *Result) Verdict() (text string, holds *bool) {
	held, counts := false, false
	var worst *Check
	for i := range r.Checks {
		c := &r.Checks[i]
		if held = held || c.HeldOut; !c.HeldOut || c.Known != "" {
			continue
		}
		counts = true
		if worst == nil || offOf(&c.Errors[furthestOf(c.Errors)]) > offOf(&worst.Errors[furthestOf(worst.Errors)]) {
			worst = c
		}
	}
	switch {
	case !held:
		return "Nothing was held out: --holdout 0.5 shows how well the profile predicts.", nil
	case !counts:
		return "Only requests of slow or disturbed servers were held out: they do not show how well the profile predicts.", nil
	case r.Holds():
		return "Held-out means of TTFT, TPOT and E2E are within 5 %.", new(true)
	}
	e := &worst.Errors[furthestOf(worst.Errors)]
	return fmt.Sprintf("Held-out means of TTFT, TPOT and E2E are NOT within 5 %%: do not rely on this profile. Furthest is mean %s on %s, %+.1f %%, of the fit to %s.", e.Metric, worst.Judged, 100*e.Mean, worst.Fitted), new(false)
}
