package summary

import (
	"fmt"
	"io"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
)

// Named is a report and what it is called.
type Named struct {
	Name   string
	Report *collector.Report
}

// WriteMarkdown writes a table with a row per value and a column per report.
// Real times are left out: they differ from run to run.
func WriteMarkdown(w io.Writer, reports []Named) error {
	var b strings.Builder
	b.WriteString("| Metric |")
	for _, r := range reports {
		fmt.Fprintf(&b, " %s |", strings.ReplaceAll(r.Name, "|", `\|`))
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(reports)) + "\n")
	for _, key := range reportKeys(reports) {
		fmt.Fprintf(&b, "| `%s` |", key)
		for _, r := range reports {
			switch v := r.Report.Values()[key].(type) {
			case nil:
				b.WriteString("  |")
			case float64:
				fmt.Fprintf(&b, " %.2f |", v)
			default:
				fmt.Fprintf(&b, " %v |", v)
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// reportKeys are those of the first report, then what others have besides.
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
