package accuracy

import (
	"fmt"
	"slices"
)

// FiltersTable returns a Markdown table of the excluded rows.
func (p *Published) FiltersTable() string {
	t := beginTable("Rows", "Left out because")
	kept := p.Rows
	for _, l := range p.LeftOut {
		fmt.Fprintf(t, "| %d | %s |\n", l.Rows, l.Reason)
		kept -= l.Rows
	}
	fmt.Fprintf(t, "| %d | replayed, of %d rows |\n", kept, p.Rows)
	return t.String()
}

// GroupsTable returns a Markdown table of the errors by engine, family and other properties. Names restrict it to the
// groups by these properties.
func (p *Published) GroupsTable(names ...string) string {
	t := beginTable("By", "", "Servers", "Mean absolute error", "Median", "Within 15 %", "Within 20 %", "TTFT up to 8 in flight, median")
	var by column
	for i := range p.Groups {
		g := &p.Groups[i]
		if len(names) > 0 && !slices.Contains(names, g.By) {
			continue
		}
		first := "–"
		if g.FirstRows > 0 {
			first = fmt.Sprintf("%s of %d", formatPercent(g.First), g.FirstRows)
		}
		fmt.Fprintf(t, "| %s | %s | %d | %.1f %% | %s | %.0f %% | %.0f %% | %s |\n", by.cell(g.By), g.Name, g.Rows, g.Mean, formatPercent(g.Median), g.In15, g.In20, first)
	}
	return t.String()
}

// column is the name in the previous row. column is for tables in which equal consecutive names are printed once.
type column string

// cell returns the name of a row, or "" if the previous row has the same name.
func (c *column) cell(name string) string {
	if string(*c) == name {
		return ""
	}
	*c = column(name)
	return name
}

// ConstantsTable returns a Markdown table of the fitted corrections.
func (p *Published) ConstantsTable() string {
	t := beginTable("Servers", "Fitted to", "Factor of passes with prompts", "ms more of these", "ms a pass", "ms a request", "Judged on", "Mean absolute error", "With the program's constants")
	var servers column
	for i := range p.Fits {
		c := &p.Fits[i]
		fmt.Fprintf(t, "| %s | %s | %.2f | %.1f | %.2f | %.4f | %d | %.1f %% | %.1f %% |\n", servers.cell(c.Servers), c.Fitted, c.Prompts, c.Prompt, c.Base, c.Request, c.Rows, c.Mean, c.Program)
	}
	return t.String()
}

// FrontEndsTable returns a Markdown table of the fitted front ends.
func (p *Published) FrontEndsTable() string {
	t := beginTable("Servers", "Fitted to", "ms a request", "ms a token", "Judged on", "Mean absolute error", "Median", "With the program's front end", "Median")
	var servers column
	for i := range p.FrontEnds {
		f := &p.FrontEnds[i]
		fmt.Fprintf(t, "| %s | %s | %.1f | %.4f | %d | %.1f %% | %+.1f %% | %.1f %% | %+.1f %% |\n", servers.cell(f.Servers), f.Fitted, f.Base, f.Token, f.Rows, f.Mean, f.Median, f.Program, f.ProgramMedian)
	}
	return t.String()
}

// ClassesTable returns a Markdown table of the bands of the narrowest classes.
func (p *Published) ClassesTable() string {
	t := beginTable("Engine", "Family", "Weights", "GPU generation", "GPUs", "Servers", "Median", "10th to 90th percentile")
	for i := range p.Classes {
		b := &p.Classes[i]
		if b.GPUs == "" {
			continue
		}
		gpus := b.GPUs
		if b.Ranks != "" {
			gpus += ", " + b.Ranks
		}
		fmt.Fprintf(t, "| %s | %s | %s | %s | %s | %d | %s | %+.1f to %+.1f %% |\n", NameEngine(b.Engine), b.Family, b.Weights, b.Generation, gpus, b.Rows,
			formatPercent(b.Median), b.Low, b.High)
	}
	return t.String()
}
