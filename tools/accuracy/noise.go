package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/calibrate"
)

// unknownNoise is the noise of a run without repeats.
const unknownNoise = "–"

// statedNoise is the published range around the median of nine repeats. statedNoise covers the one-pod runs at 5, 8
// and 10 requests/s. The repeats are not part of the optional data.
const statedNoise = "TPOT, E2E ±2 %, TTFT -7 to +25 %, ±2.6 % of those not held"

// noiseOf returns the differences between a run and its repeats. The repeats are the directories RUN.2, RUN.3 and so
// on in the same folder. Without repeats noiseOf returns the published noise.
func (f *jointFit) noiseOf(data, run string) (string, error) {
	dirs, err := filepath.Glob(filepath.Join(data, f.folder, run+".*"))
	if err != nil || len(dirs) == 0 {
		return f.noise, err
	}
	by := map[string][]float64{}
	for _, dir := range append(dirs, filepath.Join(data, f.folder, run)) {
		m, err := calibrate.ReadTimes(dir)
		if err != nil {
			return "", err
		}
		for metric, mean := range meansOf(m) {
			by[metric] = append(by[metric], mean)
		}
	}
	text := fmt.Sprintf("%d runs:", 1+len(dirs))
	for _, metric := range []string{"TPOT", "TTFT", "E2E"} {
		text += " " + metric + " " + describeNoise(by[metric])
	}
	return text, nil
}

// meansOf returns the mean times of a run, in s.
func meansOf(m *calibrate.Measured) map[string]float64 {
	var first, each, whole, several float64
	served := m.Requests[m.Lead:]
	for _, r := range served {
		first, whole = first+r.First-r.Arrival, whole+r.Last-r.Arrival
		if r.Output > 1 {
			each, several = each+(r.Last-r.First)/float64(r.Output-1), several+1
		}
	}
	n := float64(len(served))
	return map[string]float64{"TTFT": first / n, "TPOT": each / max(several, 1), "E2E": whole / n}
}

// describeNoise returns the range of values around their median, in percent.
func describeNoise(values []float64) string {
	slices.Sort(values)
	n := len(values)
	median := (values[(n-1)/2] + values[n/2]) / 2
	return fmt.Sprintf("%+.1f to %+.1f %%", 100*(values[0]/median-1), 100*(values[n-1]/median-1))
}
