package records

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/report/diff"
	"github.com/replay-llm/replay/report/html"
)

// makeDiffPage returns a page with the verdicts of a comparison, the differences, and the requests with the largest
// changes.
func makeDiffPage(d *diff.Diff, both []runs.Assumed, command string) *html.SheetPage {
	page := &html.SheetPage{Title: "Comparison of two runs", Answer: &html.Answer{Verdict: verdictOf(d)}}
	answer := page.Answer
	answer.Number, answer.Under = strconv.Itoa(len(d.Metrics)), fmt.Sprintf("of %d values differ", d.Compared)
	if r := d.Requests; r != nil {
		lines := []string{fmt.Sprintf("%d requests in both runs, %d of them moved; %d only in A, %d only in B", r.Joined, r.Moved, r.OnlyA, r.OnlyB)}
		if p := r.Parting; p != nil {
			lines = append(lines, fmt.Sprintf("First difference at %s ms: %s of %v: A %s, B %s", strconv.FormatFloat(p.AtMS, 'f', -1, 64), p.What, p.Request, p.A, p.B))
		}
		if d.FirstPass != nil {
			lines = append(lines, "First pass to differ: "+d.FirstPass.String())
		}
		answer.Lists = append(answer.Lists, html.List{Title: "Requests", Lines: lines})
		if r.Paired != nil {
			answer.Grids = append(answer.Grids, pairedGrid(r.Paired))
		}
	}
	if len(d.Settings) > 0 {
		grid := html.Grid{Title: "Settings that differ", Head: []string{"setting", "A", "B"}}
		for _, s := range d.Settings {
			grid.Rows = append(grid.Rows, []string{s.Key, s.A, s.B})
		}
		answer.Grids = append(answer.Grids, grid)
	}
	assumes := html.Facts{Title: "What this assumes"}
	for _, a := range runs.MergeAssumptions("", both) {
		assumes.Rows = append(assumes.Rows, [2]string{strings.ReplaceAll(a.Key, "_", " "), a.Text})
	}
	if len(assumes.Rows) > 0 {
		answer.Facts = append(answer.Facts, assumes)
	}
	answer.Facts = append(answer.Facts, html.Facts{Title: "What was asked", Rows: [][2]string{{"command", command}, {"A", d.A}, {"B", d.B}}})
	if d.Requests != nil && len(d.Requests.Most) > 0 {
		page.Tables = append(page.Tables, html.SheetTable{
			Title: "Requests that moved most", Table: movedTable(d.Requests.Most), X: "e2e_a_ms", Y: "e2e_b_ms",
			Few: []string{"e2e_a_ms", "e2e_b_ms", "ttft_a_ms", "ttft_b_ms", "worker_a", "worker_b"},
		})
	}
	page.Tables = append(page.Tables, html.SheetTable{Title: "Values that differ", Table: metricsTable(d.Metrics), Keyed: true, Few: []string{"a", "b", "change", "change_percent"}})
	return page
}

// verdictOf returns the verdict of a comparison in one sentence.
func verdictOf(d *diff.Diff) string {
	if d.Same {
		return "The runs are the same."
	}
	if d.Requests == nil || d.Requests.Paired == nil {
		return "The runs differ."
	}
	var parts []string
	for _, kind := range []struct {
		verdict diff.Verdict
		verb    string
	}{{diff.Win, "wins"}, {diff.Lose, "loses"}, {diff.Tie, "ties"}} {
		var names []string
		for _, m := range d.Requests.Paired.Metrics {
			if m.Verdict == kind.verdict {
				names = append(names, m.Statistic+" "+strings.ToUpper(m.Metric))
			}
		}
		if len(names) > 0 {
			parts = append(parts, kind.verb+" in "+strings.Join(names, ", "))
		}
	}
	if len(parts) == 0 {
		return "The runs differ."
	}
	return "B " + strings.Join(parts, "; ") + "."
}

// pairedGrid returns the changes of latencies with their intervals.
func pairedGrid(p *diff.Paired) html.Grid {
	signs := map[diff.Verdict]string{diff.Win: "✓ ", diff.Lose: "✗ "}
	grid := html.Grid{Title: "B against A, with 95 % confidence intervals of the change", Head: []string{"", "A", "B", "change", "from", "to", "verdict"}}
	for _, m := range p.Metrics {
		from, to := "", ""
		if m.Low != nil {
			from, to = html.FormatChange(*m.Low), html.FormatChange(*m.High)
		}
		grid.Rows = append(grid.Rows, []string{m.Statistic + " " + strings.ToUpper(m.Metric), html.FormatMS(m.A), html.FormatMS(m.B), html.FormatChange(m.Change), from, to, signs[m.Verdict] + string(m.Verdict)})
	}
	return grid
}

// metricsTable returns a row for each report value that differs.
func metricsTable(metrics []diff.Metric) *table.Table {
	t := &table.Table{Columns: []table.Column{{Name: "value", Setting: true}}}
	t.AddNumbers(false, "a", "b", "change", "change_percent")
	for _, m := range metrics {
		t.Rows = append(t.Rows, []any{m.Key, m.A, m.B, m.Change, m.Share})
	}
	return t
}

// movedTable returns a row for each moved request.
func movedTable(moved []diff.Moved) *table.Table {
	t := &table.Table{Columns: []table.Column{{Name: "request", Setting: true}, {Name: "session", Setting: true}}}
	t.AddNumbers(true, "turn")
	t.AddNumbers(false, "e2e_a_ms", "e2e_b_ms", "ttft_a_ms", "ttft_b_ms", "worker_a", "worker_b")
	for _, m := range moved {
		row := []any{strconv.Itoa(m.Request.ID), m.Request.Session, float64(m.Request.Turn)}
		for _, v := range []*float64{m.E2EA, m.E2EB, m.TTFTA, m.TTFTB} {
			row = append(row, cellOf(v))
		}
		t.Rows = append(t.Rows, slices.Concat(row, []any{float64(m.WorkerA), float64(m.WorkerB)}))
	}
	return t
}

// cellOf returns the table cell of a value that may be unknown.
func cellOf(v *float64) any {
	if v == nil {
		return nil
	}
	return *v
}
