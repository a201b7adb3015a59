// Package diff finds the differences between two runs: of their settings and values, of their requests, and the first
// different event and pass.
//
// Read diff.go, requests.go, paired.go, text.go.
package diff

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/passes"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
)

// Options set which differences count and how many are shown.
type Options struct {
	// Tolerance is the maximum difference of equal values, as a share of the larger value; 0: values must be
	// identical. Tolerance applies only to values of the report.
	Tolerance float64
	Top       int // requests to list
}

// Diff holds the differences of two runs.
type Diff struct {
	A        string    `json:"a"`
	B        string    `json:"b"`
	Same     bool      `json:"same"`
	Settings []Setting `json:"settings"` // that differ
	Compared int       `json:"metrics_compared"`
	Metrics  []Metric  `json:"metrics"`  // values that differ
	Requests *Requests `json:"requests"` // nil unless both sides have them
	// FirstPass is the first pass that differs, after a call of FindPass.
	FirstPass *passes.Parting `json:"first_pass"`
	NoPass    string          `json:"first_pass_unknown,omitempty"` // why that is not known
	// Assumptions are the assumptions of the results, by side (a or b) and key.
	Assumptions map[string]map[string]string `json:"assumptions,omitempty"`
}

// Setting is a setting that differs. A missing value is "".
type Setting struct {
	Key string `json:"key"`
	A   string `json:"a"`
	B   string `json:"b"`
}

// Metric is a value of the report that differs.
type Metric struct {
	Key    string  `json:"key"`
	A      float64 `json:"a"`
	B      float64 `json:"b"`
	Change float64 `json:"change"`  // B - A
	Share  float64 `json:"percent"` // of A; 0 when A is 0
}

// Compare returns the differences between a and b.
func Compare(a, b *Side, o Options) *Diff {
	d := &Diff{A: a.Name, B: b.Name, Settings: []Setting{}, Metrics: []Metric{}}
	if a.Run != nil && b.Run != nil {
		d.compareSettings(a, b)
		d.Requests = compareRequests(a.Rows, b.Rows, o.Top)
		d.Requests.Paired.holdBack(a.Draws() || b.Draws())
	}
	d.compareMetrics(a, b, o.Tolerance)
	d.Same = len(d.Metrics) == 0 && (d.Requests == nil || d.Requests.areSame())
	return d
}

// Parts reports whether a request has a difference in its events, so that a first pass differs.
func (d *Diff) Parts() bool { return d.Requests != nil && !d.Requests.areSame() }

// FindPass finds the first pass that differs between the passes of a and b.
func (d *Diff) FindPass(a, b *Side, passesA, passesB []passes.Pass) {
	ids := make(map[key]int32, len(a.Rows))
	for i := range a.Rows {
		ids[key{a.Rows[i].Session, a.Rows[i].Turn}] = int32(a.Rows[i].ID)
	}
	d.FirstPass = passes.Part(passesA, passesB, func(id int32) int32 {
		if int(id) >= len(b.Rows) {
			return -1
		}
		if inA, ok := ids[key{b.Rows[id].Session, b.Rows[id].Turn}]; ok {
			return inA
		}
		return -1
	})
	if d.FirstPass == nil {
		d.NoPass = "all passes are alike"
	}
}

func (d *Diff) compareSettings(a, b *Side) {
	inA, inB := a.settingsByKey(), b.settingsByKey()
	all := maps.Clone(inA)
	maps.Copy(all, inB)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if inA[key] != inB[key] {
			d.Settings = append(d.Settings, Setting{key, inA[key], inB[key]})
		}
	}
}

// compareMetrics compares the numbers that both reports contain. compareMetrics ignores real times, since they differ
// between runs of one command.
func (d *Diff) compareMetrics(a, b *Side, tolerance float64) {
	inA, inB := a.Report.Numbers(), b.Report.Numbers()
	for _, key := range slices.SortedFunc(maps.Keys(inA), strings.Compare) {
		y, ok := inB[key]
		if !ok || collector.IsWall(key) {
			continue
		}
		x := inA[key]
		d.Compared++
		if x == y || math.Abs(x-y) <= tolerance*max(math.Abs(x), math.Abs(y)) {
			continue
		}
		m := Metric{Key: key, A: x, B: y, Change: y - x}
		if x != 0 {
			m.Share = 100 * (y - x) / math.Abs(x)
		}
		d.Metrics = append(d.Metrics, m)
	}
}

// Side is one of the runs.
type Side struct {
	Name   string
	Report *collector.Report
	Run    *rundir.Run    // nil if the side is only a report
	Rows   []requests.Row // nil when there is a report alone
}

// Load reads a run directory, or a report file of replay or of the reference.
func Load(path string) (*Side, error) {
	run, report, err := rundir.Load(path)
	if err != nil || run == nil {
		return &Side{Name: path, Report: report}, err
	}
	rows, err := run.Rows()
	return &Side{Name: filepath.Clean(path), Report: report, Run: run, Rows: rows}, err
}

// Passes reads the recorded passes of the run. The error wraps fs.ErrNotExist if no passes were recorded.
func (s *Side) Passes() ([]passes.Pass, error) {
	return passes.ReadFile(filepath.Join(s.Name, passes.FileName))
}

// settingsByKey returns the settings of the run, by key.
func (s *Side) settingsByKey() map[string]string {
	all := map[string]string{}
	if s.Run == nil {
		return all
	}
	for key, value := range s.Run.Config {
		all[key] = string(value)
	}
	for i, in := range s.Run.Inputs {
		all[fmt.Sprintf("input.%d.%s", i, in.Role)] = fmt.Sprintf("%q", in.SHA256[:min(12, len(in.SHA256))])
	}
	return all
}
