package runs

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/saturation"
)

// Conclude adds to the report of a replay whether the cluster kept up, nil in closed loop, and what the
// result rests on.
func Conclude(spec *replay.Spec, result *harness.Result) (load *saturation.Saturation, assumed []engines.Assumption) {
	report := result.Report
	if spec.Mode == loadgen.Trace {
		s := saturation.Of(result.Collector)
		load, report.Extra = &s, append(report.Extra, s.Fields()...)
	}
	assumed = spec.Assumptions()
	fields := make([]collector.Field, len(assumed))
	for i, a := range assumed {
		fields[i] = collector.Field{Key: a.Key, Value: a.Text}
	}
	report.Extra = append(report.Extra, collector.Field{Key: "assumptions", Value: fields})
	return load, assumed
}

// conclude adds to the report what follows from it, and says it. Results that repeat the reference's have
// nothing of it.
func (r *run) conclude() {
	if r.o.Reference || r.spec.Compat {
		return
	}
	table := r.o.Output.Form.Value != "json"
	load, all := Conclude(&r.spec, r.result)
	switch {
	case load == nil:
	case table:
		r.lines = append(r.lines, terminal.WrapLine("Load: "+load.String(), 6))
	case load.Verdict == saturation.Overloaded:
		r.lines = append(r.lines, "replay: warning: "+load.String())
	}
	if table {
		r.lines = append(r.lines, AssumptionLines(all)...)
	}
}

// AssumptionLines returns what a result rests on, for people.
func AssumptionLines(all []engines.Assumption) (lines []string) {
	for i, a := range all {
		head := [...]string{"Assumes:", "        "}[min(i, 1)]
		line := fmt.Sprintf("%s %s: %s", head, strings.ReplaceAll(a.Key, "_", " "), a.Text)
		lines = append(lines, terminal.WrapLine(line, len(head)+3))
	}
	return lines
}
