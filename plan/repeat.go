package plan

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/collector"
)

// RepeatCells returns the cells, then all cells on the first resample of their workloads, then on the second, up to
// the n-th.
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

// Resampled holds the statistics of one value over the resamples of a cell.
type Resampled struct {
	Key     string   `json:"-"` // of the reports
	Repeats int      `json:"repeats"`
	Value   Interval `json:"value"`
	// Change is the change from the first cell of the same trace that has a report, resample by resample. Change is
	// nil in the first cell, and if fewer than two resamples have both values.
	Change  *Interval `json:"change,omitempty"`
	Verdict string    `json:"verdict,omitempty"` // win, lose or tie, when there is a change
}

// Interval is the mean of a value over resamples, with two 95 % intervals by Student's t.
type Interval struct {
	Mean float64 `json:"mean"`
	// Confidence is the confidence interval of the mean over all possible resamples. The width of Confidence goes to
	// 0 with the number of resamples.
	Confidence Bounds `json:"confidence"`
	// Prediction is the prediction interval of the value in one more resample. The width of Prediction goes to the
	// spread of the values.
	Prediction Bounds `json:"prediction"`
}

// Bounds are the ends of an interval.
type Bounds struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// newInterval returns the intervals of at least two values.
func newInterval(values []float64) Interval {
	mean, std := stat.MeanStdDev(values, nil)
	n := float64(len(values))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	around := func(share float64) Bounds {
		by := float64(t * float64(std*math.Sqrt(share)))
		return Bounds{Low: mean - by, High: mean + by}
	}
	return Interval{Mean: mean, Confidence: around(1 / n), Prediction: around(1 + 1/n)}
}

// list returns the mean and the bounds, in the order of intervalHead.
func (i *Interval) list() []float64 {
	return []float64{i.Mean, i.Confidence.Low, i.Confidence.High, i.Prediction.Low, i.Prediction.High}
}

// intervalHead returns the names of the values of list: first, and four names that begin with prefix.
func intervalHead(first, prefix string) []string {
	head := []string{first}
	for _, of := range []string{"confidence", "prediction"} {
		head = append(head, prefix+of+"_low", prefix+of+"_high")
	}
	return head
}

// listResampledKeys returns the report values that are compared over resamples.
func listResampledKeys() []string {
	return []string{"output_throughput_tok_s", "prefix_cache_reused_ratio", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms",
		"mean_itl_ms", "p99_itl_ms", "p99_e2e_latency_ms", "slo_attainment", "goodput_rps"}
}

// addResamples adds the results of resamples to the rows. outcomes has all rows of the first resample, then all rows
// of the next. The reason of a failed resample becomes the reason of its row.
func (t *Results) addResamples(outcomes []Outcome) error {
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
			if s := compareResamples(key, samples[i], samples[first[trace]], i == first[trace]); s != nil {
				t.rows[i].resampled = append(t.rows[i].resampled, *s)
			}
		}
	}
	return nil
}

// traceSetting is the setting that names a cell's trace.
const traceSetting = "trace"

// compareResamples returns the result of a value in the resamples of a cell, compared with the first cell.
// compareResamples returns nil if fewer than two resamples have the value.
func compareResamples(key string, cell, first []map[string]json.RawMessage, isFirst bool) *Resampled {
	var values, changes []float64
	for k := range cell {
		v, ok := numberAt(cell[k], key)
		if !ok {
			continue
		}
		values = append(values, v)
		if base, ok := numberAt(first[k], key); ok {
			changes = append(changes, v-base)
		}
	}
	if len(values) < 2 {
		return nil
	}
	s := &Resampled{Key: key, Repeats: len(values), Value: newInterval(values)}
	for _, b := range []*Bounds{&s.Value.Confidence, &s.Value.Prediction} {
		b.Low = max(b.Low, 0) // all these values are at least 0
		if isShare(key) {
			b.High = min(b.High, 1)
		}
	}
	if isFirst || len(changes) < 2 {
		return s
	}
	change := newInterval(changes)
	s.Change, s.Verdict = &change, "tie"
	higher := collector.IsHigherBetter(key)
	switch p := change.Prediction; {
	case p.High < 0 && !higher, p.Low > 0 && higher:
		s.Verdict = "win"
	case p.High < 0, p.Low > 0:
		s.Verdict = "lose"
	}
	return s
}

func numberAt(values map[string]json.RawMessage, key string) (float64, bool) {
	v, err := strconv.ParseFloat(string(values[key]), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}

// resampledHead returns the column names of resampledCells; none without resamples.
func (t *Results) resampledHead() []string {
	var head []string
	for _, key := range t.resampledKeys() {
		prefix := "resampled_" + key + "_"
		head = slices.Concat(head, intervalHead(prefix+"mean", prefix), intervalHead(prefix+"change", prefix+"change_"), []string{prefix + "verdict"})
	}
	return head
}

// resampledKeys returns the values for which a row has resamples.
func (t *Results) resampledKeys() []string {
	var keys []string
	for _, k := range listResampledKeys() {
		if slices.ContainsFunc(t.rows, func(r row) bool { return r.findResampled(k) != nil }) {
			keys = append(keys, k)
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

// resampledCells returns the statistics of keys over the resamples of a row.
func (r *row) resampledCells(keys []string) []string {
	var line []string
	for _, key := range keys {
		cells := make([]string, 2*5+1) // two intervals and a verdict
		if s := r.findResampled(key); s != nil {
			values := s.Value.list()
			if s.Change != nil {
				values = append(values, s.Change.list()...)
			}
			for i, v := range values {
				cells[i] = strconv.FormatFloat(v, 'g', -1, 64)
			}
			cells[len(cells)-1] = s.Verdict
		}
		line = append(line, cells...)
	}
	return line
}

func isShare(key string) bool {
	return strings.HasSuffix(key, "_ratio") || strings.HasSuffix(key, "_attainment")
}
