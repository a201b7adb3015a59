package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An autoscaler acts until the last request has ended, also if a worker becomes ready afterwards, at the time of a
// tick.
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

// Workers that are killed while they drain are counted, with the outcomes of their requests.
func TestDrainsEnd(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "hpa.yaml"), filepath.Join(dir, "report.json")
	text := "{scaler: schedule, max: 4, slots: [{at: 0s, workers: 4}, {at: 5s, workers: 1}], sync: 5s, startup: {weights: 0s}, drain: {timeout: 100ms, on_loss: migrate}}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	table := printed(t, []string{"trace", "--input-tokens=2000", "--output-tokens=200", "--request-count=120", "--arrival-interval-ms=100", "--workers=4", "--autoscale=" + file, "--report-json=" + out})
	var report struct {
		Kills    int `json:"drain_kills"`
		Lost     int `json:"drain_lost_requests"`
		Retried  int `json:"drain_retried_requests"`
		Migrated int `json:"drain_migrated_requests"`
		Moved    int `json:"migrations"`
	}
	read, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(read, &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("Drains: 3 workers killed after 0.1s: 0 requests lost, 0 begun again, %d moved on", report.Migrated)
	if report.Kills != 3 || report.Lost+report.Retried != 0 || report.Migrated == 0 || report.Moved != report.Migrated || !strings.Contains(string(table), line) {
		t.Errorf("%+v, want 3 workers killed and all of their requests migrated, and in\n%s\nthe line %s", report, table, line)
	}
}
