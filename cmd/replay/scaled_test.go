package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// An autoscaler acts until the last request has ended, also where a worker becomes ready at an instant after that, at
// which a tick is due.
func TestAutoscalersEndWithTheWorkload(t *testing.T) {
	for name, text := range map[string]string{"scrape and tick": `interval: 10s`, "ticks": `interval: 5s`} {
		dir := t.TempDir()
		file, out := filepath.Join(dir, "hpa.yaml"), filepath.Join(dir, "run")
		text = "{scaler: hpa, max: 6, sync: 10s, metrics: [{metric: in_flight, target: 2}], scale_down: {window: 0s}, scrape: {" + text + "}, startup: {weights: 10s}}"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		printed(t, []string{"trace", "--input-tokens=2000", "--output-tokens=200", "--request-count=120", "--arrival-interval-ms=100", "--autoscale=" + file, "--out=" + out})
		var report struct {
			Duration float64 `json:"duration_ms"`
			Ups      int     `json:"scale_ups"`
			Downs    int     `json:"scale_downs"`
		}
		var scaling struct {
			Acts []struct {
				At float64 `json:"at_ms"`
			}
		}
		for path, to := range map[string]any{"report.json": &report, "scaling.json": &scaling} {
			read, err := os.ReadFile(filepath.Join(out, path))
			if err == nil {
				err = json.Unmarshal(read, to)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(scaling.Acts) == 0 || len(scaling.Acts) != report.Ups+report.Downs {
			t.Errorf("%s: %+v %+v", name, report, scaling)
		}
		for _, a := range scaling.Acts {
			if a.At > report.Duration {
				t.Errorf("%s: acts at %v ms, after the last request at %v ms", name, a.At, report.Duration)
			}
		}
	}
}
