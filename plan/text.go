package plan

import (
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay/collector"
)

// WriteNarrow writes the axes and as many values as fit into the columns of a terminal. The results of resamples
// follow, if any.
func (t *Results) WriteNarrow(w io.Writer) error {
	all := t.narrow()
	left := all.Fit(terminal.Width)
	var b strings.Builder
	b.WriteString(all.Text())
	note := "Latencies are in ms."
	if len(left) > 0 {
		note += " Left out for the width: " + strings.Join(left, ", ") + "; --wide has all."
	}
	b.WriteString(terminal.WrapLine(note, 0) + "\n")
	t.writeReasons(&b)
	t.writeStopped(&b)
	t.writeResampled(&b, false)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeReasons writes the reasons why cells have no report, each reason once.
func (t *Results) writeReasons(b *strings.Builder) {
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

// writeStopped writes the reasons why cells were not replayed to their end.
func (t *Results) writeStopped(b *strings.Builder) {
	for i := range t.rows {
		r, why := &t.rows[i], ""
		if json.Unmarshal(r.values[StoppedKey], &why) == nil {
			b.WriteString(terminal.WrapLine(fmt.Sprintf("Cell %d, stopped early: %s", r.cell.Index, why), 2) + "\n")
		}
	}
}

// narrow returns the text table. Columns with the highest ranks are dropped first.
func (t *Results) narrow() *table.Table {
	all, lines := table.New("cell"), make([][]string, len(t.rows))
	for i := range t.rows {
		lines[i] = []string{strconv.Itoa(t.rows[i].cell.Index)}
	}
	for _, axis := range t.axes {
		all.AddColumns(axis)
		cells := make([]string, len(t.rows))
		for i := range t.rows {
			cells[i] = t.rows[i].cell.Of(axis)
		}
		trimFolder(cells)
		for i, cell := range cells {
			lines[i] = append(lines[i], cell)
		}
	}
	shown := t.Shown()
	for _, v := range narrowValues() {
		if v.key != completedKey && !slices.Contains(shown, v.key) || v.key == completedKey && !t.someIncomplete() {
			continue
		}
		head := collector.HeadOf(v.key)
		all.Columns = append(all.Columns, table.Column{Above: head[0], Name: head[1], Rank: v.rank})
		for i := range t.rows {
			text := shortenNumber(strings.Trim(string(t.rows[i].values[v.key]), `"`))
			if v.key == SaturationKey && text == keepsUp {
				text = "" // what is not stable is to be seen
			}
			lines[i] = append(lines[i], text)
		}
	}
	for _, line := range lines {
		all.Add(line...)
	}
	return all
}

// narrowValue is a report value as a column.
type narrowValue struct {
	key  string
	rank int
}

const completedKey = "completed_requests"

func narrowValues() []narrowValue {
	return []narrowValue{
		{completedKey, 0}, {rejectedKey, 0}, {"output_throughput_tok_s", 1}, {"prefix_cache_reused_ratio", 2},
		{"median_ttft_ms", 3}, {"p99_ttft_ms", 0}, {"median_itl_ms", 5}, {"p99_itl_ms", 0}, {"p99_e2e_latency_ms", 4},
		{GPUsKey, 0}, {costKey, 0}, {SaturationKey, 0},
	}
}

// someIncomplete reports whether a cell has requests that were not completed.
func (t *Results) someIncomplete() bool {
	return slices.ContainsFunc(t.rows, func(r row) bool {
		return r.values != nil && string(r.values[completedKey]) != string(r.values["num_requests"])
	})
}

// trimFolder removes the common folder from file names.
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

// IntervalTexts returns explanations of the intervals and verdicts of resamples, each with its name; none without
// resamples.
func (t *Results) IntervalTexts() [][2]string {
	if len(t.resampledKeys()) == 0 {
		return nil
	}
	return [][2]string{
		{"confidence", "95 % confidence interval of the mean over resamples"},
		{"prediction", "95 % prediction interval of one more resample"},
		{"change", "from the first cell of the trace, resample by resample"},
		{"verdict", "win and lose: 0 is outside of the prediction interval of the change"},
	}
}

const (
	resampledTitle = "Over resamples of the workload: the 95 % confidence interval of the mean, and the 95 % prediction interval of one more resample:"
	changesTitle   = "Changes from the first cell of the trace, resample by resample; win and lose: 0 is outside of the prediction interval:"
)

// writeResampled writes two tables of the results of resamples: the values and their changes, with a row for each
// value of each cell. Wide tables have the settings of the cells and full names.
func (t *Results) writeResampled(b *strings.Builder, wide bool) {
	values, changes := t.beginResampled("mean", wide), t.beginResampled("change", wide)
	changes.AddColumns("verdict")
	for i := range t.rows {
		r := &t.rows[i]
		for k := range r.resampled {
			s := &r.resampled[k]
			line := []string{strconv.Itoa(r.cell.Index), collector.ShortName(s.Key)}
			if wide {
				line = append(t.rowCells(r, nil)[:1+len(t.axes)], s.Key)
			}
			values.Add(slices.Concat(line, s.format("%.*f", &s.Value))...)
			if s.Change != nil {
				changes.Add(append(slices.Concat(line, s.format("%+.*f", s.Change)), s.Verdict)...)
			}
		}
	}
	for _, part := range []struct {
		title string
		of    *table.Table
	}{{resampledTitle, values}, {changesTitle, changes}} {
		if len(part.of.Rows) > 0 {
			b.WriteString("\n" + terminal.WrapLine(part.title, 2) + "\n" + part.of.Text())
		}
	}
}

// beginResampled returns an empty table of intervals.
func (t *Results) beginResampled(mean string, wide bool) *table.Table {
	all := table.New("cell")
	if wide {
		all.AddColumns(t.axes...)
	}
	all.AddColumns("value", mean, "confidence\nfrom", "interval\nto", "prediction\nfrom", "interval\nto")
	return all
}

// format returns the mean and the bounds of one of the two intervals of s.
func (s *Resampled) format(verb string, of *Interval) []string {
	var largest float64
	for _, i := range []*Interval{&s.Value, s.Change} {
		if i != nil {
			largest = max(largest, math.Abs(i.Prediction.Low), math.Abs(i.Prediction.High))
		}
	}
	digits := terminal.Digits(largest)
	if isShare(s.Key) {
		digits = 4
	}
	var cells []string
	for _, v := range of.list() {
		cells = append(cells, fmt.Sprintf(verb, digits, v))
	}
	return cells
}
