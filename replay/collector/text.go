package collector

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DefaultTitle is the line above the table.
const DefaultTitle = "replay | LLM Metrics"

// Text is what WriteText prints around the table.
type Text struct {
	Title string // line above the table; "" is DefaultTitle
	Saved string // path of the report file; "" leaves its line out
}

// WriteText prints the report for people: a table of the metrics, then what the
// run took and where the report is.
func (r *Report) WriteText(w io.Writer, t Text) error {
	if t.Title == "" {
		t.Title = DefaultTitle
	}
	var b strings.Builder
	b.WriteString(t.Title + "\n")
	writeTable(&b, r.rows())
	fmt.Fprintf(&b, "Wall Time (ms): %s\n", twoDecimals(r.WallMS))
	fmt.Fprintf(&b, "Prefix Cache Reused Ratio: %s\n", twoDecimals(r.PrefixCacheReusedRatio))
	if t.Saved != "" {
		fmt.Fprintf(&b, "Saved full report to: %s\n", t.Saved)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// columns is the number of cells in each row of the table.
const columns = 8

type row [columns]string

// rows are the header and the metrics.
func (r *Report) rows() []row {
	return []row{
		{"Metric", "avg", "min", "max", "p99", "p90", "p75", "std"},
		distributionRow("Time to First Token (ms)", &r.TTFT),
		distributionRow("Time to Second Token (ms)", &r.TTST),
		distributionRow("Request Latency (ms)", &r.E2E),
		distributionRow("Inter Token Latency (ms)", &r.ITL),
		distributionRow("Output Token Throughput Per User (tokens/sec/user)", &r.UserThroughput),
		valueRow("Output Token Throughput (tokens/sec)", r.OutputTokensPerS),
		valueRow("Request Throughput (requests/sec)", r.RequestsPerS),
		valueRow("Request Count (requests)", float64(r.Completed)),
	}
}

func distributionRow(label string, d *Distribution) row {
	cells := row{label}
	for i, v := range [columns - 1]float64{d.Mean, d.Min, d.Max, d.P99, d.P90, d.P75, d.Std} {
		cells[i+1] = twoDecimals(v)
	}
	return cells
}

func valueRow(label string, v float64) row {
	cells := row{label, twoDecimals(v)}
	for i := 2; i < columns; i++ {
		cells[i] = "N/A"
	}
	return cells
}

// writeTable draws rows, the first of which is the header, in a frame.
func writeTable(b *strings.Builder, rows []row) {
	var widths [columns]int
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for i, cells := range rows {
		switch i {
		case 0:
			writeBorder(b, &widths, "┏┳┓")
		case 1:
			writeBorder(b, &widths, "┡╇┩")
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
	writeBorder(b, &widths, "└┴┘")
}

// writeBorder draws a line of the frame; corners are its left end, its joints
// and its right end.
func writeBorder(b *strings.Builder, widths *[columns]int, corners string) {
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

// twoDecimals formats v with two decimals, rounded from its exact binary value
// with ties to even, and commas between thousands.
func twoDecimals(v float64) string {
	s := strconv.FormatFloat(v, 'f', 2, 64)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	dot := strings.IndexByte(s, '.')
	if dot < 0 {
		return sign + s // infinite or not a number
	}
	for i := dot - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
