package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lines below the table of a replay are also printed for its recorded run, in every format.
func TestReportHasAllLines(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hpa.yaml")
	text := "{scaler: hpa, max: 6, sync: 10s, metrics: [{metric: in_flight, target: 2}], startup: {weights: 5s}}"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	load := []string{"trace", "--input-tokens=2000", "--output-tokens=200", "--request-count=40", "--arrival-interval-ms=300", "--slo=ttft=1s"}
	for name, more := range map[string][]string{
		"faults":  {"--workers=2", `--faults=[{at: 2s, worker: 1, what: dies, back: 3s}]`},
		"scaling": {"--autoscale=" + file},
		"regret":  {"--workers=2", "--router=kv", "--regret", "--regret-sample=5"},
		"json":    {"--workers=2", "--output=json"},
	} {
		out := filepath.Join(dir, name)
		args := append(append(load, more...), "--out="+out)
		_, below, found := strings.Cut(string(printed(t, args)), "\nPrefix Cache Hit Rate")
		if name == "json" {
			args = append(append(load, "--workers=2"), "--out="+out, "--overwrite")
			_, below, found = strings.Cut(string(printed(t, args)), "\nPrefix Cache Hit Rate")
			printed(t, append(append(append(load, more...), "--out="+out), "--overwrite"))
		}
		below, _, _ = strings.Cut(below, "Saved run to:")
		report := string(printed(t, []string{"report", out}))
		if !found || !strings.Contains(below, "Assumes:") || !strings.Contains(below, "Load:") || !strings.HasSuffix(report, below) {
			t.Errorf("%s: printed\n%s\nits report\n%s", name, below, report)
		}
	}
}
