package plan

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/replay-llm/replay/internal/json"
)

// RepeatCells returns cells, and after them all cells on the first resample of their
// workloads, on the second, and so on to the n-th.
func RepeatCells(cells []Cell, n int) []Cell {
	all := slices.Clone(cells)
	for k := 1; k <= n; k++ {
		for _, c := range cells {
			c.Sample = k
			all = append(all, c)
		}
	}
	return all
}

// Resampled is what the resamples of a cell say of one value.
type Resampled struct {
	Key     string   `json:"-"` // of the reports
	Repeats int      `json:"repeats"`
	Value   Interval `json:"value"`
	// Change is from the first cell of the same trace that has a report, resample by
	// resample; nil in that cell and where there are not two resamples of both.
	Change  *Interval `json:"change,omitempty"`
	Verdict string    `json:"verdict,omitempty"` // win, lose or tie, when there is a change
}

// Interval is a mean and where 95 % of the workloads that could as well have been
// recorded lie: so many standard deviations around it as Student's t says for so few
// resamples.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// newInterval returns the interval of at least two values.
func newInterval(values []float64) Interval {
	mean, std := stat.MeanStdDev(values, nil)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(values) - 1)}.Quantile(0.975)
	by := float64(t * std)
	return Interval{Mean: mean, Low: mean - by, High: mean + by}
}

// resampledKey is a value of the reports that is compared over resamples.
type resampledKey struct {
	key   string
	lower bool // is better
}

func listResampledKeys() []resampledKey {
	return []resampledKey{
		{"output_throughput_tok_s", false}, {"prefix_cache_reused_ratio", false}, {"mean_ttft_ms", true}, {"p99_ttft_ms", true},
		{"mean_tpot_ms", true}, {"mean_itl_ms", true}, {"p99_itl_ms", true}, {"p99_e2e_latency_ms", true},
		{"slo_attainment", false}, {"goodput_rps", false},
	}
}

// addResamples gives the rows what came of their resamples, which are those of all rows,
// again and again. A resample that failed is the reason of its row.
func (t *Table) addResamples(outcomes []Outcome) error {
	samples := make([][]map[string]json.RawMessage, len(t.rows)) // by row and resample
	for n, o := range outcomes {
		i, k := n%len(t.rows), n/len(t.rows)+1
		var values map[string]json.RawMessage
		if o.Report == nil {
			if r := &t.rows[i]; r.reason == "" {
				r.reason = fmt.Sprintf("resample %d: %s", k, o.Reason)
			}
		} else if err := json.Unmarshal(o.Report, &values); err != nil {
			return fmt.Errorf("cell %d, resample %d: its report is no JSON object: %w", i, k, err)
		}
		samples[i] = append(samples[i], values)
	}
	first := map[string]int{} // by trace
	for i := range t.rows {
		trace := t.rows[i].cell.Of(traceSetting)
		if _, seen := first[trace]; !seen {
			if t.rows[i].report == nil {
				continue // nothing to compare with
			}
			first[trace] = i
		}
		for _, key := range listResampledKeys() {
			if s := key.compare(samples[i], samples[first[trace]], i == first[trace]); s != nil {
				t.rows[i].resampled = append(t.rows[i].resampled, *s)
			}
		}
	}
	return nil
}

// traceSetting is the setting that names a cell's trace.
const traceSetting = "trace"

// compare returns what came of a value in the resamples of a cell, against those of the
// first; nil when fewer than two have it.
func (key *resampledKey) compare(cell, first []map[string]json.RawMessage, isFirst bool) *Resampled {
	var values, changes []float64
	for k := range cell {
		v, ok := numberAt(cell[k], key.key)
		if !ok {
			continue
		}
		values = append(values, v)
		if base, ok := numberAt(first[k], key.key); ok {
			changes = append(changes, v-base)
		}
	}
	if len(values) < 2 {
		return nil
	}
	s := &Resampled{Key: key.key, Repeats: len(values), Value: newInterval(values)}
	s.Value.Low = max(s.Value.Low, 0) // none of the values is ever less
	if isShare(key.key) {
		s.Value.High = min(s.Value.High, 1)
	}
	if isFirst || len(changes) < 2 {
		return s
	}
	change := newInterval(changes)
	s.Change, s.Verdict = &change, "tie"
	switch {
	case change.High < 0 && key.lower, change.Low > 0 && !key.lower:
		s.Verdict = "win"
	case change.High < 0, change.Low > 0:
		s.Verdict = "lose"
	}
	return s
}

func numberAt(values map[string]json.RawMessage, key string) (float64, bool) {
	v, err := strconv.ParseFloat(string(values[key]), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// resampledHead returns the names of what resampledCells returns; none without resamples.
func (t *Table) resampledHead() []string {
	var head []string
	for _, key := range t.resampledKeys() {
		for _, what := range []string{"mean", "low", "high", "change", "change_low", "change_high", "verdict"} {
			head = append(head, "resampled_"+key+"_"+what)
		}
	}
	return head
}

// resampledKeys returns the values that any row has resamples of.
func (t *Table) resampledKeys() []string {
	var keys []string
	for _, k := range listResampledKeys() {
		if slices.ContainsFunc(t.rows, func(r row) bool { return r.findResampled(k.key) != nil }) {
			keys = append(keys, k.key)
		}
	}
	return keys
}

func (r *row) findResampled(key string) *Resampled {
	i := slices.IndexFunc(r.resampled, func(s Resampled) bool { return s.Key == key })
	if i < 0 {
		return nil
	}
	return &r.resampled[i]
}

// resampledCells returns what the resamples of a row say of keys.
func (r *row) resampledCells(keys []string) []string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	var line []string
	for _, key := range keys {
		cells := make([]string, 7)
		if s := r.findResampled(key); s != nil {
			cells[0], cells[1], cells[2] = number(s.Value.Mean), number(s.Value.Low), number(s.Value.High)
			if c := s.Change; c != nil {
				cells[3], cells[4], cells[5], cells[6] = number(c.Mean), number(c.Low), number(c.High), s.Verdict
			}
		}
		line = append(line, cells...)
	}
	return line
}

const resampledTitle = "Over resamples of the workload, with 95 % intervals; changes are from the first cell of the trace:"

// writeResampled writes a row for each value of each cell, when there are resamples.
func (t *Table) writeResampled(w io.Writer) error {
	keys := t.resampledKeys()
	if len(keys) == 0 {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("\n" + resampledTitle + "\n")
	out := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, strings.Join(slices.Concat([]string{"cell"}, t.Axes, []string{"value", "mean", "from", "to", "change", "from", "to", "verdict"}), "\t")+"\t")
	for i := range t.rows {
		r := &t.rows[i]
		for _, s := range r.resampled {
			line := append(t.rowCells(r, nil)[:1+len(t.Axes)], s.Key)
			for _, v := range []float64{s.Value.Mean, s.Value.Low, s.Value.High} {
				line = append(line, fmt.Sprintf("%.*f", digitsOf(s.Key), v))
			}
			if c := s.Change; c != nil {
				for _, v := range []float64{c.Mean, c.Low, c.High} {
					line = append(line, fmt.Sprintf("%+.*f", digitsOf(s.Key), v))
				}
				line = append(line, s.Verdict)
			} else {
				line = append(line, "-", "-", "-", "-")
			}
			fmt.Fprintln(out, strings.Join(line, "\t")+"\t")
		}
	}
	out.Flush() // a buffer takes everything
	_, err := w.Write(b.Bytes())
	return err
}

// digitsOf returns how many digits after the point a value is shown with: shares have
// more.
func digitsOf(key string) int {
	if isShare(key) {
		return 4
	}
	return 2
}

func isShare(key string) bool {
	return strings.HasSuffix(key, "_ratio") || strings.HasSuffix(key, "_attainment")
}
