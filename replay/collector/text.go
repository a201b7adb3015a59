package collector

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/replay-llm/replay/internal/stable"
)

// DefaultTitle is the title line of the table.
const DefaultTitle = "replay | LLM Metrics"

// Form is the selection of columns in the table of a report.
type Form int

const (
	Narrow    Form = iota // columns that fit in 80 characters
	Wide                  // all columns, in a frame
	Reference             // columns and frame of the reference
)

// Text is the settings of WriteText.
type Text struct {
	Title string // line above the table; "" is DefaultTitle
	Saved string // path of the report file; "" omits the line about the file
	Form  Form
}

// WriteText prints the report as text: a table of the metrics, then the time of the run and the path of the report.
func (r *Report) WriteText(w io.Writer, t Text) error {
	if t.Title == "" {
		t.Title = DefaultTitle
	}
	var b strings.Builder
	b.WriteString(t.Title + "\n")
	if t.Form == Narrow {
		r.writeNarrow(&b)
	} else {
		writeTable(&b, r.rows(t.Form))
	}
	if r.CappedRequests > 0 {
		fmt.Fprintf(&b, "Capped Outputs: %d of %d requests, %d tokens cut at the longest sequence\n", r.CappedRequests, r.Requests, r.CappedTokens)
	}
	if r.ClippedRequests > 0 {
		fmt.Fprintf(&b, "Clipped Outputs: %d of %d requests, by %d tokens that a worker's pool cannot hold\n", r.ClippedRequests, r.Completed, r.ClippedTokens)
	}
	fmt.Fprintf(&b, "Wall Time (ms): %s\n", twoDecimals(r.WallMS))
	label := "Prefix Cache Hit Rate"
	if t.Form == Reference {
		label = "Prefix Cache Reused Ratio"
	}
	fmt.Fprintf(&b, "%s: %s%s\n", label, twoDecimals(r.PrefixCacheReusedRatio), r.describeHost(t.Form))
	b.WriteString(r.describeWindow())
	if r.Readmissions > 0 {
		fmt.Fprintf(&b, "Readmissions After Preemption: %d, which found %s of their prompts cached\n", r.Readmissions, twoDecimals(r.ReadmittedReusedRatio))
	}
	if r.AcceptedTokensPerPass > 0 {
		fmt.Fprintf(&b, "Accepted Tokens Per Pass: %s (%s of drafts)\n", twoDecimals(r.AcceptedTokensPerPass), twoDecimals(r.AcceptanceRate))
	}
	if t.Saved != "" {
		fmt.Fprintf(&b, "Saved full report to: %s\n", t.Saved)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// describeHost returns the part of the prefix cache hit rate that came from host memory, "" without host memory. The
// reference's table does not have this number.
func (r *Report) describeHost(form Form) string {
	ratio, known := r.Get(HostReused).value.(float64)
	if n, whole := r.Get(HostReused).value.(int); whole { // the report of another program may have an integer
		ratio, known = float64(n), true
	}
	if !known || form == Reference {
		return ""
	}
	return fmt.Sprintf(" (%s from host memory)", twoDecimals(ratio))
}

// lines returns the metrics of the table. The reference's table has no time per output token.
func (r *Report) lines(form Form) []Metric {
	all := slices.DeleteFunc(Metrics(), func(m Metric) bool { return m.Line == 0 || m.Label == ownLabel && form == Reference })
	stable.Sort(all, func(a, b Metric) int { return a.Line - b.Line })
	return all
}

// averageEnds is the column of the narrow table in which averages end. A label that leaves fewer than 9 columns for
// the average is printed on a separate line.
const averageEnds = 36

// writeNarrow writes the distributions in the same columns in every report, so that reports can be compared by eye.
// After the distributions, writeNarrow writes the single values.
func (r *Report) writeNarrow(b *strings.Builder) {
	line := func(label string, cells ...any) {
		left := averageEnds - 1 - len(label)
		if left < 9 {
			b.WriteString(label + "\n")
			label, left = "", averageEnds-1
		}
		fmt.Fprintf(b, "%s %*s %10s %10s %10s %10s\n", append([]any{label, left}, cells...)...)
	}
	line("Metric", "avg", "p50", "p90", "p99", "max")
	for _, m := range r.lines(Narrow) {
		switch at := m.at(r).(type) {
		case *Distribution:
			line(m.Label, fitCell(at.Mean), fitCell(at.Median), fitCell(at.P90), fitCell(at.P99), fitCell(at.Max))
		case *float64:
			fmt.Fprintf(b, "%s: %s\n", m.Label, twoDecimals(*at))
		case *int:
			fmt.Fprintf(b, "%s: %s\n", m.Label, strings.TrimSuffix(twoDecimals(float64(*at)), ".00"))
		}
	}
}

// fitCell returns twoDecimals(v), without decimals if the value would be too long.
func fitCell(v float64) string {
	if v < 999_999.995 {
		return twoDecimals(v)
	}
	return strings.TrimSuffix(twoDecimals(math.RoundToEven(v)), ".00")
}

// rows returns the header and the metrics of a table in a frame.
func (r *Report) rows(form Form) [][]string {
	rows := [][]string{{"Metric", "avg", "min", "max", "p99", "p90", "p75", "p50", "std"}}
	single := func(v float64) []string {
		return append([]string{twoDecimals(v)}, slices.Repeat([]string{"N/A"}, 7)...)
	}
	for _, m := range r.lines(form) {
		var cells []string
		switch at := m.at(r).(type) {
		case *Distribution:
			for _, v := range []float64{at.Mean, at.Min, at.Max, at.P99, at.P90, at.P75, at.Median, at.Std} {
				cells = append(cells, twoDecimals(v))
			}
		case *float64:
			cells = single(*at)
		case *int:
			cells = single(float64(*at))
		}
		rows = append(rows, append([]string{m.Label}, cells...))
	}
	if form == Reference {
		for i, cells := range rows {
			rows[i] = slices.Delete(cells, 7, 8) // p50
		}
	}
	return rows
}

// writeTable draws rows in a frame. The first row is the header.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for i, cells := range rows {
		switch i {
		case 0:
			writeBorder(b, widths, "┏┳┓")
		case 1:
			writeBorder(b, widths, "┡╇┩")
		}
		for j, cell := range cells {
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
			if j == 0 {
				b.WriteString("┃ " + cell + pad + " ┃")
			} else {
				b.WriteString(" " + pad + cell + " ┃")
			}
		}
		b.WriteByte('\n')
	}
	writeBorder(b, widths, "└┴┘")
}

// writeBorder draws a line of the frame. corners is its left end, its joints and its right end.
func writeBorder(b *strings.Builder, widths []int, corners string) {
	c := []rune(corners)
	b.WriteRune(c[0])
	for i, width := range widths {
		if i > 0 {
			b.WriteRune(c[1])
		}
		b.WriteString(strings.Repeat("━", width+2))
	}
	b.WriteRune(c[2])
	b.WriteByte('\n')
}

// twoDecimals formats v with two decimals and with commas between thousands. twoDecimals rounds the exact binary
// value, with ties to even.
func twoDecimals(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	dot := strings.IndexByte(s, '.')
	if dot < 0 {
		return sign + s // v is Inf or NaN
	}
	for i := dot - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
