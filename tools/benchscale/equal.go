package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/replay-llm/replay/tools/stopwatch"
)

// compare replays the same trace from memory and as a stream, and compares all entries of the reports. With exact
// quantiles, all entries must be equal. With sketches, quantiles may differ by the error that the report states.
// Standard deviations may differ by a billionth, since their order of addition differs.
func (b *bench) compare(ctx context.Context, dir string, workers int) error {
	path := filepath.Join(dir, "week.jsonl")
	if _, err := stopwatch.Once(ctx, b.binary, append(b.traffic(workers), "--out", path)...); err != nil {
		return err
	}
	kept, err := b.replay(ctx, path, workers)
	if err != nil {
		return err
	}
	for _, how := range []string{"exact", "sketch"} {
		streamed, err := b.replay(ctx, path, workers, "--stream", "--quantiles", how)
		if err != nil {
			return err
		}
		same, near, worst, err := compareReports(kept, streamed)
		if err != nil {
			return fmt.Errorf("--quantiles %s: %w", how, err)
		}
		fmt.Fprintf(b.out, "%d requests, %d workers, --quantiles %s: %d entries of the report are equal to those of the trace that is kept", b.requests, workers, how, same)
		if near > 0 {
			fmt.Fprintf(b.out, ", %d quantiles and deviations are within %.2g %%", near, 100*worst)
		}
		fmt.Fprintln(b.out)
	}
	return os.Remove(path)
}

// replay returns the report of a trace.
func (b *bench) replay(ctx context.Context, path string, workers int, more ...string) (map[string]any, error) {
	cost, err := stopwatch.Once(ctx, b.binary, append(b.cluster(path, workers), more...)...)
	if err != nil {
		return nil, err
	}
	var report map[string]any
	if err := json.Unmarshal(cost.Output, &report); err != nil {
		return nil, fmt.Errorf("the report: %w", err)
	}
	return report, nil
}

// compareReports counts the equal entries and the entries within the error of sketches. worst is the largest relative
// difference.
func compareReports(kept, streamed map[string]any) (same, near int, worst float64, err error) {
	var wrong []string
	allowed, _ := streamed["quantile_error"].(float64)
	kept, streamed = flattenReport("", kept), flattenReport("", streamed)
	for key, want := range kept {
		got := streamed[key]
		x, xOK := want.(float64)
		y, yOK := got.(float64)
		share := math.Abs(x-y) / math.Max(math.Abs(x), 1e-300)
		switch {
		case ofWallTime(key):
		case fmt.Sprint(want) == fmt.Sprint(got) && (!xOK || x == y):
			same++
		case xOK && yOK && (ofSketch(key) && share <= allowed || strings.HasPrefix(key, "std_") && share < 1e-9):
			near++
			worst = math.Max(worst, share)
		default:
			wrong = append(wrong, fmt.Sprintf("%s is %v, must be %v", key, got, want))
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		return same, near, worst, fmt.Errorf("the report is another: %s", strings.Join(wrong, "; "))
	}
	return same, near, worst, nil
}

// flattenReport returns the entries of a report with nested keys such as a.b.
func flattenReport(prefix string, report map[string]any) map[string]any {
	flat := make(map[string]any)
	for key, value := range report {
		if object, ok := value.(map[string]any); ok {
			maps.Copy(flat, flattenReport(prefix+key+".", object))
		} else {
			flat[prefix+key] = value
		}
	}
	return flat
}

// ofWallTime reports whether an entry depends on the wall time.
func ofWallTime(key string) bool {
	return key == "wall_time_ms" || strings.HasPrefix(key, "processed_") && strings.HasSuffix(key, "_per_s")
}

// ofSketch reports whether an entry is a quantile.
func ofSketch(key string) bool {
	for _, p := range []string{"median_", "p75_", "p90_", "p95_", "p99_", "saturation_test.wait_"} { // "median_" is a quantile too
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}
