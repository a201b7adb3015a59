package runs

import (
	"fmt"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/saturation"
)

// conclude adds to the report whether the cluster kept up, and what the result rests on.
// Results that repeat the reference's have neither.
func (r *run) conclude() {
	if r.o.Reference || r.spec.Compat {
		return
	}
	table := r.o.Output.Form.Value != "json"
	report := r.result.Report
	if r.spec.Mode == loadgen.Trace {
		s := saturation.Judge(r.result.Collector.LetIn())
		report.Extra = append(report.Extra, s.Fields()...)
		switch {
		case table:
			r.lines = append(r.lines, terminal.WrapLine("Load: "+s.String(), 6))
		case s.Verdict == saturation.Overloaded:
			r.lines = append(r.lines, "replay: warning: "+s.String())
		}
	}
	all := r.spec.Assumptions()
	fields := make([]collector.Field, len(all))
	for i, a := range all {
		fields[i] = collector.Field{Key: a.Key, Value: a.Text}
	}
	report.Extra = append(report.Extra, collector.Field{Key: "assumptions", Value: fields})
	if !table {
		return
	}
	for i, a := range all {
		head := "Assumes:"
		if i > 0 {
			head = "        "
		}
		line := fmt.Sprintf("%s %s: %s", head, strings.ReplaceAll(a.Key, "_", " "), a.Text)
		r.lines = append(r.lines, terminal.WrapLine(line, len(head)+3))
	}
}
