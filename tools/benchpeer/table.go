package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/replay-llm/replay/tools/benchpeer/row"
)

// printTable measures the rows, prints each as soon as it is known, and counts those
// that miss a bound.
func (b *bench) printTable(ctx context.Context, rows []row.Row) (missed int, err error) {
	b.printPreface(fmt.Sprintf("Pairs per row, in turn: %d; a ratio is their median [least–most], against the release named", b.pairs))
	var names []string
	for _, p := range b.peers {
		names = append(names, p.name)
	}
	peers := strings.Join(names, " / ")
	fmt.Fprintf(b.out, "| case | simulation: ours / %s | ratio | bound | command: ours / %s | ratio | bound | peak MiB: ours / theirs | ratio | bound | verdict |\n",
		peers, peers)
	fmt.Fprintln(b.out, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		m, err := b.measureRow(ctx, r)
		if ctx.Err() != nil {
			return missed, ctx.Err()
		}
		if err != nil { // the other rows may do better
			fmt.Fprintf(b.out, "| %s | | | | | | | | | | FAILED: %v |\n", r.Title, err)
			missed++
			continue
		}
		j := judgeRow(m)
		b.printRow(m, &j)
		if len(j.missed) > 0 {
			missed++
		}
	}
	fmt.Fprintf(b.out, "\n%d rows, %d missed.\n", len(rows), missed)
	return missed, nil
}

// printPreface prints where and how the rows are measured.
func (b *bench) printPreface(how string) {
	fmt.Fprintf(b.out, "%s/%s, %d processors, %s, load %s. %s.\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), readLoad(), how)
	if b.quick {
		fmt.Fprintln(b.out, "Quick: one run each and smaller workloads, which say nothing about the bounds.")
	}
	fmt.Fprintln(b.out)
}

// readLoad returns how busy the machine was in the last minute, where that is known.
func readLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func (b *bench) printRow(m *measured, j *judged) {
	bounds := &m.row.Bounds
	verdict := j.String()
	if b.quick {
		verdict = "(" + verdict + ")"
	}
	command := formatBound(bounds.Command)
	if bounds.CommandTime > 0 {
		command += ", < " + formatTime(bounds.CommandTime)
	}
	cells := []string{
		m.row.Title,
		m.formatTimes(simulationOf), m.formatRatio(j.simulation, m.simulation), formatBound(bounds.Simulation),
		m.formatTimes(commandOf), m.formatRatio(j.command, m.command), command,
		fmt.Sprintf("%.1f / %.1f", j.ours, j.theirs), j.formatMemory(), formatBound(1 / bounds.Memory),
		verdict,
	}
	fmt.Fprintf(b.out, "| %s |\n", strings.Join(cells, " | "))
}

// formatTimes returns ours in the median and those of each peer's first run.
func (m *measured) formatTimes(of func(*outcome) float64) string {
	all := []string{formatTime(time.Duration(m.ourMedian(of)))}
	for i := range m.first {
		text := formatTime(time.Duration(of(&m.first[i])))
		if m.first[i].unfinished != "" {
			text = "> " + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " / ")
}

func (m *measured) formatRatio(r ratio, peer int) string {
	if r.atLeast {
		return fmt.Sprintf("> %s (%s)", formatRatioDown(r.median), m.peers[peer].name)
	}
	return fmt.Sprintf("%s [%s–%s] (%s)", formatRatioDown(r.median), formatRatioDown(r.least), formatRatioDown(r.most), m.peers[peer].name)
}

// formatMemory returns the ratio of memory.
func (j *judged) formatMemory() string {
	text := formatRatioDown(j.theirs / j.ours)
	if j.atLeast {
		return "> " + text
	}
	return text
}

// formatRatioDown rounds down, so that no bound is reached by rounding.
func formatRatioDown(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0fx", math.Floor(v))
	}
	return fmt.Sprintf("%.1fx", math.Floor(v*10)/10)
}

func formatBound(bound float64) string {
	if bound == 0 {
		return "-"
	}
	return fmt.Sprintf("≥ %.0fx", bound)
}

// formatTime writes a time with three digits.
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
