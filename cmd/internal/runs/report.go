package runs

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/summary"
)

// shown is the report, and what stands below it.
type shown struct {
	replay.NoOutput
	o   *options.Options
	s   cli.Streams
	rec *recording
}

// Add lists the requests that were left out.
func (w *shown) Add(session *replay.Session) error {
	listRejected(w.s.Err, session.Result.Rejected)
	return nil
}

// Write writes the report file, if one is wanted, and then the report on standard
// output. What a table does not say of requests is said below it.
func (w *shown) Write(_ context.Context, session *replay.Session) error {
	if err := w.writeReport(session.Result, len(session.Workload.Turns)); err != nil {
		return err
	}
	to := w.s.Out
	if w.o.Output.Form.Value == "json" {
		to = w.s.Err
	}
	for _, line := range w.rec.lines {
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	return nil
}

func (w *shown) writeReport(result *harness.Result, total int) error {
	s, o, r := w.s, w.o, result.Report
	text := collector.Text{}
	if o.Changed("report-json") {
		path, err := collector.ResolvePath(o.Output.Path, time.Now())
		if err != nil {
			return fmt.Errorf("--report-json: %w", err)
		}
		if err := collector.WriteFile(path, jsonOf(o, r)); err != nil {
			return fmt.Errorf("--report-json: %w", err)
		}
		text.Saved = path
	}
	missing := missingLines(o, result, total)
	if o.Output.Form.Value == "json" {
		for _, line := range missing {
			fmt.Fprintf(s.Err, "replay: %s\n", line)
		}
		return jsonOf(o, r)(s.Out)
	}
	if err := r.WriteText(s.Out, text); err != nil || len(missing) == 0 {
		return err
	}
	_, err := io.WriteString(s.Out, strings.Join(missing, "\n")+"\n")
	return err
}

// missingLines describes how many of total requests the report is not about, and why.
func missingLines(o *options.Options, result *harness.Result, total int) []string {
	var lines []string
	if n := len(result.Rejected); n > 0 {
		lines = append(lines, fmt.Sprintf("Rejected: %d of %d requests", n, total))
	}
	if result.Partial && (o.IsLive() || o.IsCluster()) {
		lines = append(lines, fmt.Sprintf("Ended early: %d of %d requests unfinished", countUnfinished(result, total), total))
	} else if result.Partial {
		at := strconv.FormatFloat(float64(o.Limits.Until.At), 'f', -1, 64)
		lines = append(lines, fmt.Sprintf("Ended at %s ms: %d of %d requests unfinished", at, countUnfinished(result, total), total))
	}
	return lines
}

// jsonOf writes r under the names that were asked for.
func jsonOf(o *options.Options, r *collector.Report) func(io.Writer) error {
	return func(w io.Writer) error {
		f, err := summary.ParseFormat(o.Outputs.Names.Value)
		if err != nil {
			return err
		}
		return summary.Write(w, f, r)
	}
}
