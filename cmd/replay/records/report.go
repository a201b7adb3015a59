package records

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/failures"
	"github.com/replay-llm/replay/report/html"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/scaling"
	"github.com/replay-llm/replay/report/series"
	"github.com/replay-llm/replay/report/summary"
	"github.com/replay-llm/replay/report/tasks"
)

// reporting holds the flags of replay report.
type reporting struct {
	form  cli.Choice
	names cli.Choice
	wide  bool
	html  string
	// metrics is the path of a file in OpenMetrics text format; "": none.
	metrics string
	live    livePage
}

func (r *reporting) bindFlags(fs *pflag.FlagSet) {
	r.form = cli.Choice{Names: []string{"table", "json", "markdown"}, Value: "table"}
	r.names = cli.Choice{Names: summary.Names(), Value: "native"}
	fs.SortFlags = false
	fs.Var(&r.form, "output", "`form` of the report: table, json or markdown")
	fs.BoolVar(&r.wide, "wide", false, "print all columns, wider than 80 characters")
	fs.Var(&r.names, "report-format", "`names` of the values in JSON: native, aiperf, vllm or sglang")
	fs.StringVar(&r.html, "html", "", "write the runs to `FILE`, as a web page, and print nothing")
	fs.StringVar(&r.metrics, "metrics", "", "also write the values to `FILE`, as OpenMetrics gauges with a label run")
	fs.BoolVar(&r.live.wanted, "live", false, "make the web page interactive: it contains the trace and can replay the run")
	fs.StringVar(&r.live.explorer, "live-page", "", "path of the `explorer.html` to use, from a release or from make wasm (default: the file next to the program)")
	fs.StringVar(&r.live.trace, "live-trace", "", "trace `FILE` to read instead of the trace that the run recorded")
}

// NewReportCommand returns the command report, which shows the reports of recorded runs.
func NewReportCommand(s cli.Streams) *cobra.Command {
	r := &reporting{}
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Show the report of recorded runs again",
		Long: `Show the reports of runs that were recorded with --out, without running them
again. A RUN is such a directory, or a report file.`,
		Example: `  replay report out/a
  replay report out/a out/b --output markdown
  replay report out/a --output json --report-format vllm
  replay report out/a out/b --html runs.html
  replay report out/a out/b --metrics runs.prom
  replay report out/a --html run.html --live`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("no run: must be a directory made with --out, or a report file")
			}
			if cmd.Flags().Changed("report-format") && r.form.Value != "json" {
				return cli.Usagef("--report-format requires --output json")
			}
			if r.wide && r.form.Value != "table" {
				return cli.Usagef("--wide requires --output table")
			}
			if err := r.live.check(r.html, args); err != nil {
				return err
			}
			if r.live.wanted {
				return r.live.write(cmd.Context(), r.html, args[0])
			}
			if r.metrics != "" && r.html != "" {
				return cli.Usagef("--metrics and --html are mutually exclusive")
			}
			if r.html != "" {
				return writePage(r.html, args)
			}
			return r.printReports(s.Out, args)
		},
	}
	cli.BindOwn(cmd, r.bindFlags)
	return cmd
}

func (r *reporting) printReports(w io.Writer, paths []string) error {
	var all []summary.Named
	var below [][]string // the lines below each table
	for _, path := range paths {
		run, report, err := rundir.Load(path)
		if err != nil {
			return err
		}
		lines := runs.AssumptionLines(runs.AssumptionsOf(report))
		if run != nil {
			lines = run.Lines
		}
		below = append(below, lines)
		all = append(all, summary.Named{Name: filepath.Clean(path), Report: report})
	}
	if r.metrics != "" {
		if err := collector.WriteFile(r.metrics, func(w io.Writer) error { return summary.WriteOpenMetrics(w, all) }); err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
	}
	switch r.form.Value {
	case "markdown":
		return cmp.Or(summary.WriteMarkdown(w, all), writeAssumedMarkdown(w, all))
	case "json":
		return r.writeJSON(w, all)
	}
	form := collector.Narrow
	if r.wide {
		form = collector.Wide
	}
	for i, named := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := named.Report.WriteText(w, collector.Text{Title: "replay | LLM Metrics of " + named.Name, Form: form}); err != nil {
			return err
		}
		for _, line := range below[i] {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeAssumedMarkdown writes a list of the assumptions of reports.
func writeAssumedMarkdown(w io.Writer, all []summary.Named) error {
	replays := make([]runs.Assumed, len(all))
	for i, one := range all {
		replays[i] = runs.Assumed{Name: one.Name, All: runs.AssumptionsOf(one.Report)}
	}
	return runs.WriteAssumptionsMarkdown(w, runs.MergeAssumptions("", replays))
}

// writeJSON writes one report, or a list of several reports with the names of their runs.
func (r *reporting) writeJSON(w io.Writer, all []summary.Named) error {
	if len(all) == 1 {
		return summary.Write(w, r.names.Value, all[0].Report)
	}
	type named struct {
		Run    string          `json:"run"`
		Report json.RawMessage `json:"report"`
	}
	var list []named
	for _, one := range all {
		var text bytes.Buffer
		if err := summary.Write(&text, r.names.Value, one.Report); err != nil {
			return err
		}
		list = append(list, named{one.Name, text.Bytes()})
	}
	return cli.WriteJSON(w, list)
}

// writePage draws the runs of directories on one page.
func writePage(path string, dirs []string) error {
	var runs []html.Run
	for _, dir := range dirs {
		run, err := openDrawn(dir)
		if err != nil {
			return err
		}
		if len(runs) > 0 {
			if run.Paired, err = pairRuns(dirs[0], dir, runs[0].Rows, run.Rows); err != nil {
				return err
			}
		}
		runs = append(runs, *run)
	}
	page := html.Page{Title: strings.Join(dirs, " | "), Made: time.Now()}
	err := collector.WriteFile(path, func(w io.Writer) error { return html.Write(w, page, runs) })
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}

// pairRuns compares the requests of two run directories.
func pairRuns(first, second string, rows, others []requests.Row) (*diff.Paired, error) {
	a, err := rundir.Open(first)
	if err != nil {
		return nil, err
	}
	b, err := rundir.Open(second)
	if err != nil {
		return nil, err
	}
	return diff.PairSides(&diff.Side{Run: a, Rows: rows}, &diff.Side{Run: b, Rows: others}), nil
}

// openDrawn reads the data of a run that a page shows.
func openDrawn(dir string) (*html.Run, error) {
	recorded, err := rundir.Open(dir)
	if err != nil {
		return nil, err
	}
	report, err := recorded.Report()
	if err != nil {
		return nil, err
	}
	explained, err := openExplained(dir)
	if err != nil {
		return nil, err
	}
	over, err := series.ReadFile(filepath.Join(dir, series.FileName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	run := &html.Run{
		Name: filepath.Clean(dir), Facts: factsOf(recorded), Trace: explained.Trace,
		Report: report, Rows: explained.Rows, Series: over, Log: explained.Log,
	}
	if run.Scaling, err = scaling.Read(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, tasks.FileName)); err == nil {
		if run.Tasks, err = tasks.Read(dir); err != nil {
			return nil, err
		}
	}
	return run, addFaults(run, dir)
}

// addFaults adds the faults of a run, if there were any.
func addFaults(run *html.Run, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, failures.FileName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	study, err := failures.Read(dir)
	if err != nil {
		return err
	}
	for i := range study.Events {
		run.Faults = append(run.Faults, study.Events[i].AtMS)
	}
	for _, line := range study.Lines(20) {
		head, text, _ := strings.Cut(line, ": ")
		run.Facts = append(run.Facts, [2]string{strings.ToLower(head), text})
	}
	return nil
}

// factsOf returns the inputs of a run.
func factsOf(r *rundir.Run) [][2]string {
	all := [][2]string{{"command", "replay " + strings.Join(r.Command, " ")}, {"version", r.Version}, {"seed", fmt.Sprint(r.Seed)}}
	for _, in := range r.Inputs {
		all = append(all, [2]string{in.Role, fmt.Sprintf("%s (%d bytes, sha256 %.12s)", in.Path, in.Bytes, in.SHA256)})
	}
	if r.Partial {
		all = append(all, [2]string{"partial", "ended while requests were left"})
	}
	return append(all, [2]string{"digest", r.Run})
}
