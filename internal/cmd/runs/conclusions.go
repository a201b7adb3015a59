package runs

import (
	"slices"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/classes"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/saturation"
	"github.com/replay-llm/replay/report/slo"
)

// Conclude adds the assumptions to the report of a replay. In open loop it also adds whether the cluster kept up. In
// closed loop load is nil.
func Conclude(spec *replay.Spec, result *harness.Result) (load *saturation.Saturation, assumed []engines.Assumption) {
	report := result.Report
	if spec.Mode == loadgen.Trace {
		s := saturation.Of(result.Collector)
		load = &s
		report.Add(s.Fields()...)
	}
	assumed = spec.Assumptions()
	fields := make([]collector.Field, len(assumed))
	for i, a := range assumed {
		fields[i] = collector.Of(a.Key, a.Text)
	}
	report.Add(collector.Of(collector.AssumptionsKey, fields))
	return load, assumed
}

// Judge adds results to the report of a replay: whether requests meet the objectives of out, and the results of each
// class. Without objectives outcome is nil, and without classes fared is nil. rows are the rows of all requests.
func Judge(out *options.Outputs, w *loadgen.Workload, rows []requests.Row, result *harness.Result) (outcome *slo.Outcome, fared *classes.Summary, err error) {
	if objectives := out.Slo.All; len(objectives) > 0 {
		if err := slo.CheckClasses(objectives, w.Classes); err != nil {
			return nil, nil, err
		}
		outcome = slo.Judge(objectives, out.Attainment, rows, result)
		result.Report.Add(outcome.Fields()...)
	}
	if w.Classes != nil {
		fared = classes.Summarize(w.Classes, rows, result.Report.DurationMS)
		result.Report.Add(fared.Fields()...)
	}
	return outcome, fared, nil
}

// conclude adds conclusions to the report and to the printed lines. conclude does nothing for replays that repeat the
// results of the reference.
func (r *run) conclude() {
	if r.o.Reference || r.spec.Compat {
		return
	}
	load, all := Conclude(&r.spec, r.result)
	r.concluded.from = len(r.lines)
	if load != nil {
		r.lines = append(r.lines, terminal.WrapLine("Load: "+load.String(), 6))
	}
	r.lines = append(r.lines, AssumptionLines(all)...)
	r.concluded.to = len(r.lines)
	if load != nil && load.Verdict == saturation.Overloaded {
		r.concluded.warning = []string{cli.FormatWarning(load.String())}
	}
}

// conclusions are the printed lines that a JSON report has under separate keys.
type conclusions struct {
	from, to int
	warning  []string // printed instead of these lines with a JSON report
}

// linesWithJSON returns the lines that are printed to standard error with a JSON report.
func (r *run) linesWithJSON() []string {
	c := &r.concluded
	return slices.Concat(r.lines[:c.from], c.warning, r.lines[c.to:])
}
