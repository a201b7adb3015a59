package budget

import (
	"fmt"
	"io"
	"strings"

	"github.com/replay-llm/replay/internal/table"
)

// WriteMarkdown writes a heading with the verdict, and a table with a row for each budget, for pull requests.
func (o *Outcome) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### replay check %s: %s\n\n", table.Escape(o.File.Path), o.verdict())
	t := table.NewLeft("Metric", "Budget", "Baseline", "Value", "Change", "")
	for i := 2; i < 5; i++ {
		t.Columns[i].Left = false
	}
	for i := range o.Lines {
		l := &o.Lines[i]
		verdict, baseline, change := "ok", "", ""
		if l.Exceeded {
			verdict = "**exceeded**"
		}
		if l.HasBaseline {
			baseline, change = shortNumber(l.Baseline), l.changeText()
		}
		t.Add("`"+l.Key+"`", l.Text, baseline, shortNumber(l.Value), change, verdict)
	}
	b.WriteString(t.Markdown())
	if o.Changed == Changed {
		fmt.Fprintf(&b, "\nBehaviour changed: %s.\n", changedMessage)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// verdict returns the verdict in a few words.
func (o *Outcome) verdict() string {
	switch n := o.Exceeded(); {
	case n > 0:
		return fmt.Sprintf("%d of %d budgets exceeded", n, len(o.Lines))
	case !o.Behaves():
		return "all budgets hold, and requests went other ways"
	}
	return "all budgets hold"
}
