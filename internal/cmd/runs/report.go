package runs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/summary"
	"github.com/replay-llm/replay/router/policy"
)

// writeReport writes the report file, if requested, and prints the report. Below a table it prints facts about
// requests that the table does not show.
func (r *run) writeReport() error {
	o, report, text := r.o, r.result.Report, collector.Text{Form: r.o.TableForm()}
	if o.Changed("report-json") {
		path, err := collector.ResolvePath(o.Output.Path, time.Now())
		if err == nil {
			err = collector.WriteFile(path, r.writeJSON)
		}
		if err != nil {
			return fmt.Errorf("--report-json: %w", err)
		}
		text.Saved = path
	}
	lines, missing, to := r.lines, r.missingLines(), r.s.Out
	if o.Output.Form.Value == "json" {
		for _, line := range missing {
			fmt.Fprintln(r.s.Err, cli.FormatNote(line))
		}
		if err := r.writeJSON(r.s.Out); err != nil {
			return err
		}
		lines, missing, to = r.linesWithJSON(), nil, r.s.Err
	} else if err := report.WriteText(r.s.Out, text); err != nil {
		return err
	}
	for _, line := range append(missing, lines...) {
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	return nil
}

// writeJSON writes the report with the requested names of metrics.
func (r *run) writeJSON(w io.Writer) error {
	return summary.Write(w, r.o.Outputs.Names.Value, r.result.Report)
}

// missingLines describes the requests that the report does not include, with the reasons.
func (r *run) missingLines() []string {
	var lines []string
	total := len(r.workload.Turns)
	if r.spec.Recycle || r.spec.Stream != nil {
		total = r.result.Collector.Len()
	}
	if d := r.workload.CountDropped(); d.Rows() > 0 {
		lines = append(lines, terminal.WrapLine(fmt.Sprintf("Dropped: %d of %d rows of the trace: %s", d.Rows(), total+d.Rows(), d), 9))
	}
	if n := r.result.CountRejected(); n > 0 {
		lines = append(lines, terminal.WrapLine(fmt.Sprintf("Rejected: %d of %d requests%s", n, total, describeReasons(r.result)), 10))
	}
	if r.spec.Admission != nil || policy.Is[*policy.Process](r.spec.Router) {
		if by, _ := r.result.Collector.Outcomes(); r.spec.Admission != nil || by[collector.Shed] > 0 {
			lines = append(lines, fmt.Sprintf("Shed: %d of %d requests", by[collector.Shed], total))
		}
	}
	if n := r.countLost(); r.spec.Client != nil {
		lines = append(lines, r.clientLine(total))
	} else if n > 0 {
		lines = append(lines, fmt.Sprintf("Lost: %d of %d requests, with their worker or because no worker was left", n, total))
	}
	if !r.result.Partial {
		return lines
	}
	ended := "Ended early"
	if !r.live {
		ended = "Ended at " + strconv.FormatFloat(float64(r.o.Limits.Until.At), 'f', -1, 64) + " ms"
	}
	return append(lines, fmt.Sprintf("%s: %d of %d requests unfinished", ended, countUnfinished(r.result, total), total))
}

// countLost returns the number of requests that were lost by faults or at the end of drains.
func (r *run) countLost() int {
	if !r.spec.MayLose() {
		return 0
	}
	by, _ := r.result.Collector.Outcomes()
	return by[collector.Lost]
}

// describeReasons describes the reasons for which requests were rejected.
func describeReasons(r *harness.Result) string {
	var all []string
	for _, x := range r.Reasons {
		i := slices.IndexFunc(r.Rejected, func(one harness.Rejection) bool { return one.Reason == x.Key })
		var long *engines.LengthError
		switch {
		case x.Key == harness.OutOfMemory:
			all = append(all, fmt.Sprintf("%d aborted by SGLang, out of KV cache memory", x.Count))
		case i >= 0 && errors.As(r.Rejected[i].Err, &long):
			all = append(all, fmt.Sprintf("%d with a prompt of more than %d tokens (%s)", x.Count, long.Most, long.Bound()))
		default:
			all = append(all, fmt.Sprintf("%d that no idle engine can run", x.Count))
		}
	}
	return ": " + strings.Join(all, ", ")
}

// clientLine describes how often clients sent requests and with which outcomes.
func (r *run) clientLine(total int) string {
	by, _ := r.result.Collector.Outcomes()
	sent, hungUp := r.result.Collector.Attempts()
	return terminal.WrapLine(fmt.Sprintf("Clients: %d requests sent %d times (%.2f each), and hung up %d times; %d answered, %d shed, %d lost",
		total, sent, float64(sent)/float64(max(total, 1)), hungUp, by[collector.Completed], by[collector.Shed], by[collector.Lost]), 4)
}

// countUnfinished returns the number of requests that neither got all their tokens nor were rejected, shed or lost.
// total is the number of requests of the workload.
func countUnfinished(r *harness.Result, total int) int {
	by, _ := r.Collector.Outcomes()
	left := total - r.CountRejected() - by[collector.Shed] - by[collector.Lost]
	return left - r.Collector.CountFull()
}

// mostListed is the maximum number of rejected requests that are listed.
const mostListed = 10

// listRejected lists rejected requests with the reasons.
func listRejected(w io.Writer, result *harness.Result) {
	for i, r := range result.Rejected {
		if i == mostListed {
			fmt.Fprintf(w, "replay: rejected: and %d more\n", result.CountRejected()-i)
			return
		}
		fmt.Fprintf(w, "replay: rejected: %s: %v\n", r.Place, r.Err)
	}
}

// ExplainError adds advice to the error of a run.
func ExplainError(err error) error {
	if errors.As(err, new(*engines.OversizeError)) {
		return fmt.Errorf("%w; --oversize=reject leaves them out", err)
	}
	return err
}
