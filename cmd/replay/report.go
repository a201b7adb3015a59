package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/summary"
)

// reporting holds the flags of replay report.
type reporting struct {
	form  choice
	names choice
	html  string
}

func (r *reporting) bind(fs *pflag.FlagSet) {
	r.form = choice{names: []string{"table", "json", "markdown"}, value: "table"}
	r.names = choice{names: summary.Names(), value: "native"}
	fs.SortFlags = false
	fs.Var(&r.form, "output", "`form` of the report: table, json or markdown")
	fs.Var(&r.names, "report-format", "`names` of the values in JSON: native, aiperf, vllm or sglang")
	fs.StringVar(&r.html, "html", "", "draw the runs on a page of their own, `FILE`, and print nothing")
}

// newReportCommand shows the reports of runs again.
func newReportCommand(s streams) *cobra.Command {
	r := &reporting{}
	cmd := &cobra.Command{
		Use:   "report RUN...",
		Short: "Show the report of recorded runs again",
		Long: `Show the reports of runs that were recorded with --out, without running them
again. A RUN is such a directory, or a report file.`,
		Example: `  replay report out/a
  replay report out/a out/b --output markdown
  replay report out/a --output json --report-format vllm
  replay report out/a out/b --html runs.html`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no run: want a directory made with --out, or a report file")
			}
			if cmd.Flags().Changed("report-format") && r.form.value != "json" {
				return usagef("--report-format: only with --output json")
			}
			if len(args) > 1 && r.form.value == "json" {
				return usagef("--output=json: want one run with it")
			}
			if r.html != "" {
				return writePage(r.html, args)
			}
			return r.show(s.out, args)
		},
	}
	ownUsage(cmd, r.bind)
	return cmd
}

// ownUsage gives a command of recorded runs its flags and our help.
func ownUsage(cmd *cobra.Command, bind func(*pflag.FlagSet)) {
	o := &options{fs: cmd.Flags(), spelled: map[string]string{}}
	groups := sections(cmd.Flags(), []group{{"Flags", func(fs *pflag.FlagSet) {
		bind(fs)
		fs.BoolP("help", "h", false, "print this help")
	}}})
	setUsage(cmd, groups)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return o.flagError(err) })
	cmd.Flags().VisitAll(func(f *pflag.Flag) { complete(cmd, f) })
}

func (r *reporting) show(w io.Writer, paths []string) error {
	var all []summary.Named
	for _, path := range paths {
		report, err := readReport(path)
		if err != nil {
			return err
		}
		all = append(all, summary.Named{Name: filepath.Clean(path), Report: report})
	}
	switch r.form.value {
	case "markdown":
		return summary.WriteMarkdown(w, all)
	case "json":
		f, err := summary.ParseFormat(r.names.value)
		if err != nil {
			return err
		}
		return summary.Write(w, f, all[0].Report)
	}
	for i, named := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := named.Report.WriteText(w, collector.Text{Title: "replay | LLM Metrics of " + named.Name}); err != nil {
			return err
		}
	}
	return nil
}

// readReport reads the report of a run directory, or a report file.
func readReport(path string) (*collector.Report, error) {
	if !isDir(path) {
		return rundir.ReadReport(path)
	}
	run, err := rundir.Open(path)
	if err != nil {
		return nil, err
	}
	return run.Report()
}
