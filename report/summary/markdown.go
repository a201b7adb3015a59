package summary

import (
	"fmt"
	"io"

	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/replay/collector"
)

// Named is a report with its name.
type Named struct {
	Name   string
	Report *collector.Report
}

// WriteMarkdown writes a table with a row per value and a column per report. WriteMarkdown omits real times, since
// they differ between runs.
func WriteMarkdown(w io.Writer, reports []Named) error {
	t := table.NewLeft("Metric")
	for _, r := range reports {
		t.Columns = append(t.Columns, table.Column{Name: r.Name})
	}
	for _, key := range reportKeys(reports) {
		line := []string{"`" + key + "`"}
		for _, r := range reports {
			text := ""
			switch v := r.Report.Values()[key].(type) {
			case nil:
			case float64:
				text = fmt.Sprintf("%.2f", v)
			default:
				text = fmt.Sprint(v)
			}
			line = append(line, text)
		}
		t.Add(line...)
	}
	_, err := io.WriteString(w, t.Markdown())
	return err
}

// reportKeys returns the keys of the first report, then the additional keys of the other reports.
func reportKeys(reports []Named) []string {
	var all []string
	seen := map[string]bool{}
	for _, r := range reports {
		for _, f := range r.Report.Fields() {
			_, object := f.Value().([]collector.Field)
			if !seen[f.Key] && !collector.IsWall(f.Key) && !object {
				seen[f.Key] = true
				all = append(all, f.Key)
			}
		}
	}
	return all
}
