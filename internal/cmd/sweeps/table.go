package sweeps

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/file"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/report/html"
	"github.com/replay-llm/replay/report/parquet"
	"github.com/replay-llm/replay/report/saturation"
	"github.com/replay-llm/replay/report/slo"
)

// TableFlags are the flags for printing results.
type TableFlags struct {
	form  cli.Choice
	Files TableFiles
	wide  bool
	wall  bool
	cost  float64
}

func (f *TableFlags) Bind(fs *pflag.FlagSet) {
	f.form = cli.Choice{Names: []string{"table", "csv", "json"}, Value: "table"}
	fs.Var(&f.form, "output", "`form` of standard output: table (a few values), csv or json (all values)")
	fs.BoolVar(&f.wide, "wide", false, "print all columns, wider than 80 characters")
	f.Files.Bind(fs)
	fs.Float64Var(&f.cost, "gpu-cost", 0, "`price` of one GPU for one hour, in any currency; 0: the price in replay gpus")
	fs.BoolVar(&f.wall, "wall-time", false, "include values that depend on the speed of this machine, such as wall times")
}

// Check returns an error for invalid flags, before any cell runs.
func (f *TableFlags) Check() error {
	if !(f.cost >= 0) || math.IsInf(f.cost, 0) {
		return cli.Usagef("--gpu-cost=%v: must be at least 0", f.cost)
	}
	if f.wide && f.form.Value != "table" {
		return cli.Usagef("--wide requires --output table")
	}
	return f.Files.Check()
}

// Write prints a table; cells without a report are a separate error.
func (f *TableFlags) Write(s cli.Streams, g *plan.Grid, outcomes []plan.Outcome, notes []cellNotes) error {
	w := s.Out
	t, err := plan.NewResults(g, outcomes, f.wall)
	if err != nil {
		return err
	}
	t.AddCost(f.cost)
	all, assumed := t.Table(), mergeAssumptions(notes)
	forms := map[string]func(io.Writer) error{"table": t.WriteNarrow, "csv": all.WriteCSV, "json": t.WriteJSON}
	if f.wide {
		forms["table"] = t.WriteText
	}
	forms["parquet"] = func(w io.Writer) error { return parquet.WriteTable(w, all) }
	forms["html"] = func(w io.Writer) error { return html.WriteSheet(w, sweepPage(g, t, assumed, cli.QuoteCommand(s.Args))) }
	if err := f.Files.Write(forms); err != nil {
		return err
	}
	if err := forms[f.form.Value](w); err != nil {
		return err
	}
	if f.form.Value == "table" {
		if err := runs.PrintAssumptions(w, assumed); err != nil {
			return err
		}
	}
	if n := t.Incomplete(); n > 0 {
		return cli.Coded(cli.ExitIncomplete, "%d of %d cells have no report", n, g.Size())
	}
	return nil
}

// TableFiles are the output files of a table.
type TableFiles struct {
	paths     []string
	page      string // path of an HTML page with any extension; "": none
	overwrite bool
}

func (f *TableFiles) Bind(fs *pflag.FlagSet) {
	fs.StringArrayVar(&f.paths, "out", nil, "also write all values to `FILE`: .csv, .json, .parquet or .html; repeatable")
	fs.StringVar(&f.page, "html", "", "also write the result to `FILE`, as a web page")
	fs.BoolVar(&f.overwrite, "overwrite", false, "allow --out and --html to replace existing files")
}

// Overwrites reports whether existing files are replaced.
func (f *TableFiles) Overwrites() bool { return f.overwrite }

// formOf returns the output format for a path: its extension.
func (f *TableFiles) formOf(path string) string { return strings.TrimPrefix(filepath.Ext(path), ".") }

// Check returns an error for files that cannot be written, before any cell runs.
func (f *TableFiles) Check() error {
	for _, path := range f.paths {
		if !slices.Contains([]string{"csv", "json", "parquet", "html"}, f.formOf(path)) {
			return cli.Usagef("--out=%s: must be a name that ends in .csv, .json, .parquet or .html", path)
		}
		if err := f.checkNew("--out", path); err != nil {
			return err
		}
	}
	if f.page == "" {
		return nil
	}
	return f.checkNew("--html", f.page)
}

// checkNew returns an error if a flag cannot write a file.
func (f *TableFiles) checkNew(flag, path string) error {
	switch stat, err := file.Stat(path); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: %w", flag, err)
	case err == nil && stat.IsDir():
		return fmt.Errorf("%s: %s: is a directory, must be a file", flag, path)
	case err == nil && stat.Mode().IsRegular() && !f.overwrite:
		return fmt.Errorf("%s: %s: exists, must be a new path unless --overwrite is given", flag, path)
	}
	return nil
}

func (f *TableFiles) Write(forms map[string]func(io.Writer) error) error {
	for _, path := range f.paths {
		if err := collector.WriteFile(path, forms[f.formOf(path)]); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if f.page != "" {
		if err := collector.WriteFile(f.page, forms["html"]); err != nil {
			return fmt.Errorf("--html: %w", err)
		}
	}
	return nil
}

// chooseAxes returns the x axis and the color axis of the chart of a grid. The x axis is the axis with the most
// numbers, at least three. The color axis is the first other axis.
func chooseAxes(g *plan.Grid) (across, by string) {
	across = "output_throughput_tok_s"
	most := 2
	for _, a := range g.Axes {
		numeric := !slices.ContainsFunc(a.Values, func(v string) bool { _, err := strconv.ParseFloat(v, 64); return err != nil })
		if numeric && len(a.Values) > most {
			across, most = a.Name, len(a.Values)
		}
	}
	for _, a := range g.Axes {
		if a.Name != across {
			return across, a.Name
		}
	}
	return across, ""
}

// sweepPage returns the page of a sweep: the answer, a chart, the table, the common settings and the command.
func sweepPage(g *plan.Grid, t *plan.Results, assumed []engines.Assumption, command string) *html.SheetPage {
	all := t.Table()
	facts := html.Facts{Title: "All cells have"}
	for _, s := range g.Common {
		facts.Rows = append(facts.Rows, [2]string{s.Name, s.Value})
	}
	limits := limitsOf(all)
	page := &html.SheetPage{Title: fmt.Sprintf("Sweep of %d cells", g.Size()), Answer: sweepAnswer(all, limits)}
	if len(facts.Rows) > 0 {
		page.Facts = append(page.Facts, facts)
	}
	assumes := html.Facts{Title: "What this assumes"}
	for _, a := range assumed {
		assumes.Rows = append(assumes.Rows, [2]string{strings.ReplaceAll(a.Key, "_", " "), a.Text})
	}
	if len(assumes.Rows) > 0 {
		page.Facts = append(page.Facts, assumes)
	}
	if rows := t.IntervalTexts(); len(rows) > 0 {
		page.Facts = append(page.Facts, html.Facts{Title: "Over resamples of the workload", Rows: rows})
	}
	page.Facts = append(page.Facts, html.Facts{Title: "What was asked", Rows: [][2]string{{"command", command}}})
	across, by := chooseAxes(g)
	few := slices.Concat([]string{"cell"}, t.Shown(), []string{"reason"})
	for _, c := range all.Columns { // the results of resamples
		if strings.HasPrefix(c.Name, "resampled_") && (strings.HasSuffix(c.Name, "_change") || strings.HasSuffix(c.Name, "_verdict")) {
			few = append(few, c.Name)
		}
	}
	page.Tables = append(page.Tables, html.SheetTable{
		Title: "Cells", Table: all, X: across, Y: "p99_ttft_ms", By: by, Few: few, Limits: limits,
		Mark: plan.SaturationKey, Rest: "stable, or too short to tell", Marked: []html.Mark{
			{Value: string(saturation.Overloaded), Means: "overloaded: the queue grew to the end; on a longer workload latencies are worse"},
			{Value: string(saturation.Backlogged), Means: "backlogged: a queue built up, and went again"},
		},
	})
	return page
}

// sweepAnswer returns the number of cells that meet the common objectives, and the best of these cells. Without
// objectives sweepAnswer returns the best of all cells.
func sweepAnswer(all *table.Table, limits map[string]float64) *html.Answer {
	var rows [][]any
	for _, row := range all.Rows {
		meets := true
		for name, limit := range limits {
			v, known := valueOf(all, row, name)
			meets = meets && known && v <= limit
		}
		if meets {
			rows = append(rows, row)
		}
	}
	a, of := &html.Answer{}, "Of all cells"
	if len(limits) > 0 {
		a.Number, a.Under, a.Good = fmt.Sprintf("%d of %d cells", len(rows), len(all.Rows)), "meet all objectives", new(len(rows) > 0)
		of = "Of the cells that meet all objectives"
		if len(rows) == 0 {
			of, rows = "No cell meets all objectives. Of all cells", all.Rows
		}
	}
	parts, same := compareCells(all, rows)
	switch {
	case len(parts)+len(same) == 0:
		a.Verdict = "No cell has a report."
	case len(parts) == 0:
		a.Verdict = of + ", all have the same values: " + strings.Join(same, "; ") + "."
	default:
		a.Verdict = of + ", " + strings.Join(parts, "; ") + "."
		if len(same) > 0 {
			a.Verdict += " In all of them, " + strings.Join(same, "; ") + "."
		}
	}
	return a
}

// compareCells describes which rows of a table have the best values, in parts. same has the values that are equal in
// all rows, as far as their digits are shown.
func compareCells(all *table.Table, rows [][]any) (parts, same []string) {
	for _, best := range []struct {
		key, name, is string
		sign          float64
		format        func(v float64) string
	}{
		{"cost_per_million_output_tokens", "the cost of a million output tokens", "lowest", 1, func(v float64) string { return fmt.Sprintf("%.2f", v) }},
		{"p99_ttft_ms", "p99 TTFT", "lowest", 1, html.FormatMS},
		{"output_throughput_tok_s", "output throughput", "highest", -1, func(v float64) string { return fmt.Sprintf("%.0f tokens/s", v) }},
	} {
		var found [][]any // rows with the best value
		value, shown, known := 0.0, "", 0
		for _, row := range rows {
			v, ok := valueOf(all, row, best.key)
			if !ok {
				continue
			}
			known++
			switch text := best.format(v); {
			case found != nil && text == shown:
				found = append(found, row)
			case found == nil || best.sign*v < best.sign*value:
				found, value, shown = [][]any{row}, v, text
			}
		}
		switch {
		case known == 0:
		case known > 1 && len(found) == known:
			same = append(same, best.name+" is "+shown)
		default:
			parts = append(parts, best.name+" is "+best.is+" "+nameCells(all, found)+" ("+shown+")")
		}
	}
	return parts, same
}

// valueOf returns the number of a row in a column.
func valueOf(all *table.Table, row []any, name string) (float64, bool) {
	for i := range all.Columns {
		if all.Columns[i].Name == name {
			return table.Float(row[i])
		}
	}
	return 0, false
}

// nameCells names some rows of a table by the settings that are equal in them and differ in the table.
func nameCells(all *table.Table, some [][]any) string {
	differ := func(rows [][]any, i int) bool {
		return slices.ContainsFunc(rows, func(row []any) bool { return row[i] != rows[0][i] })
	}
	var parts []string
	for i, c := range all.Columns {
		if c.Setting && some[0][i] != nil && !differ(some, i) && (len(all.Rows) == 1 || differ(all.Rows, i)) {
			parts = append(parts, fmt.Sprint(c.Name, " ", some[0][i]))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("in %d of the cells", len(some))
	}
	return "with " + strings.Join(parts, ", ")
}

// limitsOf returns the objectives that all cells share, by the column that they limit.
func limitsOf(all *table.Table) map[string]float64 {
	limits := map[string]float64{}
	for i, c := range all.Columns {
		key := slo.LimitedKey(c.Name)
		if key == "" || len(all.Rows) == 0 {
			continue
		}
		first := all.Rows[0][i]
		limit, known := table.Float(first)
		other := func(row []any) bool { return row[i] != nil && row[i] != first }
		if known && !slices.ContainsFunc(all.Rows, other) {
			limits[key] = limit
		}
	}
	return limits
}
