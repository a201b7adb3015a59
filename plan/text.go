package plan

import (
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/terminal"
)

// WriteNarrow writes the axes and as many of a few values as fit into the columns of a
// terminal; below them what resamples came to, when there are any.
func (t *Table) WriteNarrow(w io.Writer) error {
	kept, left := terminal.FitColumns(t.narrowColumns())
	var b strings.Builder
	b.WriteString(terminal.FormatColumns(kept))
	note := "Latencies are in ms."
	if len(left) > 0 {
		note += " Left out for the width: " + strings.Join(left, ", ") + "; --wide has all."
	}
	b.WriteString(terminal.WrapLine(note, 0) + "\n")
	t.writeReasons(&b)
	t.writeNarrowResampled(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeReasons writes why cells have no report, each reason once.
func (t *Table) writeReasons(b *strings.Builder) {
	cells := map[string][]string{}
	for i := range t.rows {
		r := &t.rows[i]
		cells[r.reason] = append(cells[r.reason], strconv.Itoa(r.cell.Index))
	}
	for i := range t.rows {
		reason := t.rows[i].reason
		if of := cells[reason]; reason != "" && of[0] == strconv.Itoa(t.rows[i].cell.Index) {
			b.WriteString(terminal.WrapLine(fmt.Sprintf("Cell %s: %s", strings.Join(of, ", "), reason), 2) + "\n")
		}
	}
}

// narrowColumns returns the columns of a table for people, the least important of which
// have the highest ranks.
func (t *Table) narrowColumns() []terminal.Column {
	all := []terminal.Column{{Head: [2]string{"", "cell"}}}
	for i := range t.rows {
		all[0].Cells = append(all[0].Cells, strconv.Itoa(t.rows[i].cell.Index))
	}
	for _, axis := range t.Axes {
		c := terminal.Column{Head: [2]string{"", axis}}
		for i := range t.rows {
			c.Cells = append(c.Cells, t.rows[i].cell.Of(axis))
		}
		trimFolder(c.Cells)
		all = append(all, c)
	}
	shown := t.Shown()
	for _, v := range narrowValues() {
		if v.key != completedKey && !slices.Contains(shown, v.key) || v.key == completedKey && !t.someIncomplete() {
			continue
		}
		c := terminal.Column{Head: v.head, Rank: v.rank}
		for i := range t.rows {
			text := shortenNumber(strings.Trim(string(t.rows[i].values[v.key]), `"`))
			if v.key == SaturationKey && text == stable {
				text = "" // what is not stable is to be seen
			}
			c.Cells = append(c.Cells, text)
		}
		all = append(all, c)
	}
	return all
}

// narrowValue is a value of the reports as a column.
type narrowValue struct {
	key  string
	head [2]string
	rank int
}

const completedKey = "completed_requests"

func narrowValues() []narrowValue {
	return []narrowValue{
		{completedKey, [2]string{"", "completed"}, 0},
		{"output_throughput_tok_s", [2]string{"output", "tok/s"}, 1},
		{"prefix_cache_reused_ratio", [2]string{"hit", "rate"}, 2},
		{"median_ttft_ms", [2]string{"TTFT", "p50"}, 3},
		{"p99_ttft_ms", [2]string{"TTFT", "p99"}, 0},
		{"median_itl_ms", [2]string{"ITL", "p50"}, 5},
		{"p99_itl_ms", [2]string{"ITL", "p99"}, 0},
		{"p99_e2e_latency_ms", [2]string{"E2E", "p99"}, 4},
		{GPUsKey, [2]string{"", "GPUs"}, 0},
		{costKey, [2]string{"cost/M", "output"}, 0},
		{SaturationKey, [2]string{"", "load"}, 0},
	}
}

// someIncomplete reports whether some cell has requests that were not completed.
func (t *Table) someIncomplete() bool {
	return slices.ContainsFunc(t.rows, func(r row) bool {
		return r.values != nil && string(r.values[completedKey]) != string(r.values["num_requests"])
	})
}

// trimFolder takes from names of files the folder that all of them are in.
func trimFolder(names []string) {
	if len(names) == 0 {
		return
	}
	folder := path.Dir(names[0]) + "/"
	if slices.ContainsFunc(names, func(name string) bool { return path.Dir(name)+"/" != folder }) {
		return
	}
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], folder)
	}
}

// writeNarrowResampled writes a row for each value of each cell.
func (t *Table) writeNarrowResampled(b *strings.Builder) {
	if len(t.resampledKeys()) == 0 {
		return
	}
	b.WriteString("\n" + terminal.WrapLine(resampledTitle, 2) + "\n")
	all := make([]terminal.Column, 9)
	for i, name := range []string{"cell", "value", "mean", "from", "to", "change", "from", "to", "verdict"} {
		all[i].Head[1] = name
	}
	for i := range t.rows {
		r := &t.rows[i]
		for k := range r.resampled {
			for n, cell := range r.resampled[k].narrowCells(r.cell.Index) {
				all[n].Cells = append(all[n].Cells, cell)
			}
		}
	}
	b.WriteString(terminal.FormatColumns(all))
}

// narrowCells returns a row of what the resamples of a cell say of one value.
func (s *Resampled) narrowCells(cell int) []string {
	largest := max(s.Value.High, math.Abs(s.Value.Low))
	if c := s.Change; c != nil {
		largest = max(largest, math.Abs(c.Low), math.Abs(c.High))
	}
	digits := terminal.Digits(largest)
	if isShare(s.Key) {
		digits = 4
	}
	line := []string{strconv.Itoa(cell), nameKey(s.Key)}
	for _, v := range []float64{s.Value.Mean, s.Value.Low, s.Value.High} {
		line = append(line, strconv.FormatFloat(v, 'f', digits, 64))
	}
	if s.Change == nil {
		return append(line, "-", "-", "-", "-")
	}
	for _, v := range []float64{s.Change.Mean, s.Change.Low, s.Change.High} {
		line = append(line, fmt.Sprintf("%+.*f", digits, v))
	}
	return append(line, s.Verdict)
}

// nameKey returns the short name of a value of the reports.
func nameKey(key string) string {
	switch key {
	case "output_throughput_tok_s":
		return "out tok/s"
	case "prefix_cache_reused_ratio":
		return "hit rate"
	case "slo_attainment":
		return "SLO met"
	case "goodput_rps":
		return "goodput/s"
	}
	statistic, rest, _ := strings.Cut(key, "_")
	metric, _, _ := strings.Cut(rest, "_")
	return statistic + " " + strings.ToUpper(metric)
}
