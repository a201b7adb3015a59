// Package reference reads recorded results of the reference, which are the golden cases, and compares results of a
// replay with them.
//
// Read cases.go (files), command.go (command lines), compare.go (reports),
// requests.go (single requests).
package reference

import (
	"fmt"
	"math"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
)

// tolerance is the permitted relative or absolute difference of a mean or a standard deviation. The reference adds
// the samples in a different order.
const tolerance = 1e-9

// Diff is a difference between two results.
type Diff struct {
	Place     string // key of a report, or request and field
	Ref, Ours string
}

func (d Diff) String() string {
	return fmt.Sprintf("%s: reference %s, ours %s", d.Place, d.Ref, d.Ours)
}

// Compare returns the entries of ref that differ in ours. Means and standard deviations may differ by tolerance. All
// other values must be equal. Wall-clock times and keys that only ours has are ignored.
func Compare(ref, ours *collector.Report) []Diff {
	have := ours.Values()
	var diffs []Diff
	for _, f := range ref.Fields() {
		if collector.IsWall(f.Key) {
			continue
		}
		value, ok := have[f.Key]
		switch {
		case !ok:
			diffs = append(diffs, Diff{f.Key, formatValue(f.Value()), "missing"})
		case !equalValues(f.Key, f.Value(), value):
			diffs = append(diffs, Diff{f.Key, formatValue(f.Value()), formatValue(value)})
		}
	}
	return diffs
}

func equalValues(key string, ref, ours any) bool {
	a, aok := toFloat(ref)
	b, bok := toFloat(ours)
	if !aok || !bok {
		return ref == ours
	}
	if strings.HasPrefix(key, "mean_") || strings.HasPrefix(key, "std_") {
		return math.Abs(a-b) <= tolerance*max(1, math.Abs(a), math.Abs(b))
	}
	return a == b
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func formatValue(v any) string {
	if f, ok := v.(float64); ok {
		return string(collector.AppendFloat(nil, f))
	}
	return fmt.Sprint(v)
}
