package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/replay-llm/replay/tools/stopwatch"
)

// printHead prints the conditions of the measurement and the head of the table.
func (c *comparison) printHead() {
	c.printPreface(fmt.Sprintf("Pairs per row, in turn: %d; a ratio is their median [least–most], against the release named", c.pairs))
	var names []string
	for _, p := range c.peers {
		names = append(names, p.name)
	}
	peers := strings.Join(names, " / ")
	fmt.Fprintf(c.out, "| case | simulation: ours / %s | ratio | bound | command: ours / %s | ratio | bound | peak MiB: ours / theirs | ratio | bound | verdict |\n",
		peers, peers)
	fmt.Fprintln(c.out, "|---|---|---|---|---|---|---|---|---|---|---|")
}

// printPreface prints the machine, its load and the conditions of the measurement.
func (c *comparison) printPreface(how string) {
	load := "unknown" // load average of the last minute
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(text), " ")
	}
	fmt.Fprintf(c.out, "%s/%s, %d processors, %s, load %s. %s.\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), load, how)
	if c.quick {
		fmt.Fprintln(c.out, "Quick: one run each and smaller workloads, which do not check the bounds.")
	}
	fmt.Fprintln(c.out)
}

// judged contains the cells and verdicts of a row.
type judged struct {
	cells      []string // times, ratio and bound of each figure, and of memory
	missed     []string
	open       []string // figures that might meet their bound with a longer time limit
	unfinished []string // releases of the reference that did not finish, and why
}

func judgeRow(m *measured) judged {
	var j judged
	bounds := &m.row.Bounds
	for f, bound := range [...]float64{simulation: bounds.Simulation, command: bounds.Command} {
		f := figure(f)
		ours, r := m.ourMedian(f), m.compareWith(m.fastest[f], f)
		j.holdLeast(f.String(), r, bound)
		text := r.String()
		if !r.atLeast {
			text += fmt.Sprintf(" [%s–%s]", formatRatio(r.least), formatRatio(r.most))
		}
		j.cells = append(j.cells, m.formatTimes(ours, f), fmt.Sprintf("%s (%s)", text, m.peers[m.fastest[f]].name), formatBound(bound))
		if f == command && bounds.CommandTime > 0 {
			j.cells[len(j.cells)-1] += ", < " + formatTime(bounds.CommandTime)
			if ours >= bounds.CommandTime {
				j.missed = append(j.missed, "time "+formatTime(ours))
			}
		}
	}
	ours, theirs, atLeast := m.peaks()
	memory := ratio{median: theirs / ours, atLeast: atLeast}
	j.holdLeast("memory", memory, 1/bounds.Memory)
	j.cells = append(j.cells, fmt.Sprintf("%.1f / %.1f", ours, theirs), memory.String(), formatBound(1/bounds.Memory))
	j.checkSameWork(m)
	for i := range m.first {
		if why := m.first[i].unfinished; why != "" {
			j.unfinished = append(j.unfinished, fmt.Sprintf("%s did not finish: %s", m.peers[i].name, why))
		}
	}
	return j
}

// holdLeast compares a ratio with its minimum. If the ratio is only a lower bound and below the minimum, the result
// is open.
func (j *judged) holdLeast(name string, r ratio, bound float64) {
	switch {
	case bound == 0 || r.median >= bound:
	case r.atLeast:
		j.open = append(j.open, name)
	default:
		j.missed = append(j.missed, name)
	}
}

// checkSameWork reports runs of the reference that completed a different number of requests.
func (j *judged) checkSameWork(m *measured) {
	for i, pairs := range m.pairs {
		for _, p := range pairs {
			if p.theirs.unfinished == "" && p.ours.completed != p.theirs.completed {
				j.missed = append(j.missed, fmt.Sprintf("the same work: %d requests, %s has %d",
					p.ours.completed, m.peers[i].name, p.theirs.completed))
				return
			}
		}
	}
}

func (j *judged) String() string {
	var parts []string
	if len(j.missed) > 0 {
		parts = append(parts, "MISSED: "+strings.Join(j.missed, ", "))
	}
	if len(j.open) > 0 {
		parts = append(parts, "open: "+strings.Join(j.open, ", "))
	}
	if len(parts) == 0 {
		parts = append(parts, "ok")
	}
	return strings.Join(append(parts, j.unfinished...), "; ")
}

// ratio is a value of the reference divided by the value of this program.
type ratio struct {
	median, least, most float64
	atLeast             bool // a run of the reference did not finish
}

// compareWith compares the pairs with peer i.
func (m *measured) compareWith(i int, f figure) ratio {
	value := func(p pair) float64 { return float64(p.theirs.took[f]) / float64(p.ours.took[f]) }
	r := ratio{median: stopwatch.Median(m.pairs[i], value), least: math.Inf(1)}
	for _, p := range m.pairs[i] {
		r.least, r.most = min(r.least, value(p)), max(r.most, value(p))
		r.atLeast = r.atLeast || p.theirs.unfinished != ""
	}
	return r
}

// ourMedian returns the median of all counted runs of this program.
func (m *measured) ourMedian(f figure) time.Duration {
	return time.Duration(stopwatch.Median(slices.Concat(m.pairs...), func(p pair) float64 { return float64(p.ours.took[f]) }))
}

// peaks returns the highest memory of this program, and the lowest median memory of a peer. Unfinished peers count
// only if no peer finished, since their memory is only a lower bound.
func (m *measured) peaks() (ours, theirs float64, atLeast bool) {
	atLeast = m.first[m.fastest[command]].unfinished != "" // the fastest peer finished if any peer did
	for i := range m.first {
		runs := []outcome{m.first[i]}
		for _, p := range m.pairs[i] {
			ours = max(ours, p.ours.peakMiB)
			runs = append(runs, p.theirs)
		}
		if !atLeast && m.first[i].unfinished != "" {
			continue
		}
		if peak := stopwatch.Median(runs, func(o outcome) float64 { return o.peakMiB }); theirs == 0 || peak < theirs {
			theirs = peak
		}
	}
	return ours, theirs, atLeast
}

// formatTimes returns the time of this program and the time of each peer's first run.
func (m *measured) formatTimes(ours time.Duration, f figure) string {
	all := []string{formatTime(ours)}
	for i := range m.first {
		text := formatTime(m.first[i].took[f])
		if m.first[i].unfinished != "" {
			text = "> " + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " / ")
}

func (r ratio) String() string {
	if r.atLeast {
		return "> " + formatRatio(r.median)
	}
	return formatRatio(r.median)
}

// formatRatio rounds down, so that rounding cannot meet a bound.
func formatRatio(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0fx", math.Floor(v))
	}
	return fmt.Sprintf("%.1fx", math.Floor(v*10)/10)
}

func formatBound(bound float64) string {
	if bound == 0 {
		return "-"
	}
	return fmt.Sprintf("≥ %.4gx", bound)
}

// formatTime formats a time with three digits.
func formatTime(d time.Duration) string {
	ms := float64(d) / 1e6
	switch {
	case ms >= 100_000:
		return fmt.Sprintf("%.0f s", ms/1e3)
	case ms >= 1_000:
		return fmt.Sprintf("%.3g s", ms/1e3)
	}
	return fmt.Sprintf("%.3g ms", ms)
}
