package plan

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/replay/collector"
)

// Results are the outcomes of a sweep, one row per cell in grid order.
type Results struct {
	axes []string
	Keys []string // of the reports, bytewise
	rows []row
}

type row struct {
	cell   Cell
	values map[string]json.RawMessage
	report json.RawMessage
	reason string

	resampled []Resampled // empty without resamples
}

// NewResults returns the results of outcomes: of the cells of g, and after them of any number of resamples, in the
// order of RepeatCells. Without wall it omits values that depend on real time, so that repeated sweeps give equal
// results.
func NewResults(g *Grid, outcomes []Outcome, wall bool) (*Results, error) {
	t := &Results{}
	for _, a := range g.Axes {
		t.axes = append(t.axes, a.Name)
	}
	var left []string
	if !wall {
		left = collector.WallKeys()
	}
	keys := map[string]bool{}
	for i, cell := range g.Cells() {
		r := row{cell: cell, reason: outcomes[i].Reason, report: outcomes[i].Report}
		if r.report != nil {
			if err := json.Unmarshal(r.report, &r.values); err != nil {
				return nil, fmt.Errorf("cell %d: its report is no JSON object: %w", i, err)
			}
		}
		for _, key := range left {
			delete(r.values, key)
		}
		for key := range r.values {
			keys[key] = true
		}
		t.rows = append(t.rows, r)
	}
	t.Keys = slices.Sorted(maps.Keys(keys))
	return t, t.addResamples(outcomes[len(t.rows):])
}

// Report keys with special treatment in tables.
const (
	GPUsKey        = "gpus"
	GPUNameKey     = "gpu_name"
	CostPerHourKey = "cost_per_hour"
	SaturationKey  = "saturation"
	StoppedKey     = "stopped_early" // why a cell was not replayed to its end
	rejectedKey    = "rejected_requests"
	costKey        = "cost_per_million_output_tokens"
)

// AddCost adds to each row the cost of its GPUs for one hour and for a million output tokens. perGPUHour is the price
// of a GPU for one hour; 0: the price in the reports.
func (t *Results) AddCost(perGPUHour float64) {
	keys := t.Keys
	for i := range t.rows {
		r := &t.rows[i]
		gpus, hour := r.number(GPUsKey), r.number(CostPerHourKey)
		if perGPUHour > 0 {
			hour = float64(gpus * perGPUHour)
		}
		if hour == 0 {
			continue
		}
		if r.values[StoppedKey] != nil {
			r.values[CostPerHourKey] = json.RawMessage(strconv.FormatFloat(hour, 'g', -1, 64))
			keys = append(keys, CostPerHourKey)
			continue
		}
		cost := CostPerMillion(1, hour, r.number("output_throughput_tok_s"))
		for key, value := range map[string]float64{CostPerHourKey: hour, costKey: cost} {
			r.values[key] = json.RawMessage(strconv.FormatFloat(value, 'g', -1, 64))
		}
		keys = append(keys, CostPerHourKey, costKey)
	}
	slices.Sort(keys)
	t.Keys = slices.Compact(keys)
}

// number returns a number of the report, 0 if it is missing.
func (r *row) number(key string) float64 {
	v, err := strconv.ParseFloat(string(r.values[key]), 64)
	if err != nil {
		return 0
	}
	return v
}

// Table returns all results: cell, axes, keys, the results of resamples, and reason.
func (t *Results) Table() *table.Table {
	all, resampled := table.New(slices.Concat([]string{"cell"}, t.axes, t.Keys, t.resampledHead(), []string{"reason"})...), t.resampledKeys()
	for i := range t.rows {
		line := t.rowCells(&t.rows[i], t.Keys)
		all.Add(slices.Insert(line, len(line)-1, t.rows[i].resampledCells(resampled)...)...)
	}
	for i := range len(all.Columns) - 1 {
		all.Columns[i].Setting = i > 0 && i <= len(t.axes)
		all.FindNumbers(i)
	}
	return all
}

func (t *Results) rowCells(r *row, keys []string) []string {
	line := []string{strconv.Itoa(r.cell.Index)}
	for _, axis := range t.axes {
		line = append(line, r.cell.Of(axis))
	}
	for _, key := range keys {
		line = append(line, strings.Trim(string(r.values[key]), `"`))
	}
	return append(line, r.reason)
}

// WriteJSON writes a list of objects: the cell, its settings, its report or the reason why it has none, and the
// results of its resamples.
func (t *Results) WriteJSON(w io.Writer) error {
	var b bytes.Buffer
	b.WriteString("[")
	for i := range t.rows {
		r := &t.rows[i]
		settings := map[string]string{}
		for _, s := range r.cell.Settings {
			settings[s.Name] = s.Value
		}
		object := map[string]any{"cell": r.cell.Index, "settings": settings}
		if r.values != nil {
			object["report"] = r.values
		}
		if r.values == nil || r.reason != "" {
			object["reason"] = r.reason
		}
		if len(r.resampled) > 0 {
			resampled := map[string]Resampled{}
			for _, s := range r.resampled {
				resampled[s.Key] = s
			}
			object["resampled"] = resampled
		}
		text, err := json.Marshal(object) // keys in byte order
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n" + string(text))
	}
	b.WriteString("\n]\n")
	_, err := w.Write(b.Bytes())
	return err
}

// listHeadlines returns the keys that tables show first.
func listHeadlines() []string {
	return []string{"completed_requests", "duration_ms", "output_throughput_tok_s", "prefix_cache_reused_ratio",
		"median_ttft_ms", "p99_ttft_ms", "median_itl_ms", "p99_itl_ms", "p99_e2e_latency_ms"}
}

// Shown returns the keys that this table shows: the headlines and, if they have values, the GPUs, their cost, and the
// state of the load.
func (t *Results) Shown() []string {
	shown := listHeadlines()
	if t.someRejected() {
		shown = append(shown, rejectedKey)
	}
	if slices.Contains(t.Keys, GPUNameKey) || slices.Contains(t.Keys, costKey) {
		shown = append(shown, GPUsKey)
	}
	if slices.Contains(t.Keys, costKey) {
		shown = append(shown, costKey)
	}
	if slices.ContainsFunc(t.rows, func(r row) bool { v := r.values[SaturationKey]; return v != nil && string(v) != strconv.Quote(keepsUp) }) {
		shown = append(shown, SaturationKey)
	}
	return shown
}

// someRejected reports whether a cell has requests that no engine could run.
func (t *Results) someRejected() bool {
	return slices.ContainsFunc(t.rows, func(r row) bool { return r.number(rejectedKey) > 0 })
}

// keepsUp is the verdict for a cluster with a stable load.
const keepsUp = "stable"

// WriteText writes the axes and a few values, in any width.
func (t *Results) WriteText(w io.Writer) error {
	shown := t.Shown()
	head := slices.Concat([]string{"cell"}, t.axes, shown, []string{""})
	for i, name := range head {
		switch name {
		case costKey:
			head[i] = "cost/M output"
		case SaturationKey:
			head[i] = "load"
		}
	}
	all := table.New(head...)
	all.Columns[len(head)-1].Left = true // the reason
	for i := range t.rows {
		r := &t.rows[i]
		line := t.rowCells(r, shown)
		if k := slices.Index(head, "load"); k >= 0 && line[k] == keepsUp {
			line[k] = "" // what is not stable is to be seen
		}
		for k := 1 + len(t.axes); k < len(line)-1; k++ {
			line[k] = shortenNumber(line[k])
		}
		all.Add(line...)
	}
	var b strings.Builder
	b.WriteString(all.Text())
	t.writeStopped(&b)
	t.writeResampled(&b, true)
	_, err := io.WriteString(w, b.String())
	return err
}

// shortenNumber formats a number with two decimal places. Other text is unchanged, and an empty text becomes a dash.
func shortenNumber(text string) string {
	if text == "" {
		return "-"
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, ".e") {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return text
}

// Incomplete returns the number of cells without a report, or without the report of a resample.
func (t *Results) Incomplete() int {
	n := 0
	for i := range t.rows {
		if t.rows[i].report == nil || t.rows[i].reason != "" {
			n++
		}
	}
	return n
}
