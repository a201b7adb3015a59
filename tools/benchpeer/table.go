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

// table measures the rows, prints each as soon as it is known, and counts those
// that miss a bound.
func (b *bench) table(ctx context.Context, rows []row.Row) (missed int, err error) {
	b.preface(fmt.Sprintf("Pairs per row, in turn: %d; a ratio is their median [least–most], against the release named", b.pairs))
	var names []string
	for _, p := range b.peers {
		names = append(names, p.name)
	}
	peers := strings.Join(names, " / ")
	fmt.Fprintf(b.out, "| case | simulation: ours / %s | ratio | bound | command: ours / %s | ratio | bound | peak MiB: ours / theirs | ratio | bound | verdict |\n",
		peers, peers)
	fmt.Fprintln(b.out, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		m, err := b.measure(ctx, r)
		if ctx.Err() != nil {
			return missed, ctx.Err()
		}
		if err != nil { // the other rows may do better
			fmt.Fprintf(b.out, "| %s | | | | | | | | | | FAILED: %v |\n", r.Title, err)
			missed++
			continue
		}
		j := judge(m)
		b.print(m, &j)
		if len(j.missed) > 0 {
			missed++
		}
	}
	fmt.Fprintf(b.out, "\n%d rows, %d missed.\n", len(rows), missed)
	return missed, nil
}

// preface says where and how.
func (b *bench) preface(how string) {
	fmt.Fprintf(b.out, "%s/%s, %d processors, %s, load %s. %s.\n", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), load(), how)
	if b.quick {
		fmt.Fprintln(b.out, "Quick: one run each and smaller workloads, which say nothing about the bounds.")
	}
	fmt.Fprintln(b.out)
}

// load is how busy the machine was in the last minute, where it tells.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

func (b *bench) print(m *measured, j *judged) {
	bounds := &m.row.Bounds
	verdict := j.String()
	if b.quick {
		verdict = "(" + verdict + ")"
	}
	command := atLeast(bounds.Command)
	if bounds.CommandTime > 0 {
		command += ", < " + brief(bounds.CommandTime)
	}
	cells := []string{
		m.row.Title,
		m.times(simulationOf), m.ratio(j.simulation, m.simulation), atLeast(bounds.Simulation),
		m.times(commandOf), m.ratio(j.command, m.command), command,
		fmt.Sprintf("%.1f / %.1f", j.ours, j.theirs), j.peaks(), atLeast(1 / bounds.Memory),
		verdict,
	}
	fmt.Fprintf(b.out, "| %s |\n", strings.Join(cells, " | "))
}

// times are ours in the median and those of each peer's first run.
func (m *measured) times(of func(*outcome) float64) string {
	all := []string{brief(time.Duration(m.ours(of)))}
	for i := range m.first {
		text := brief(time.Duration(of(&m.first[i])))
		if m.first[i].unfinished != "" {
			text = "> " + text
		}
		all = append(all, text)
	}
	return strings.Join(all, " / ")
}

func (m *measured) ratio(r ratio, peer int) string {
	if r.atLeast {
		return fmt.Sprintf("> %s (%s)", times(r.median), m.peers[peer].name)
	}
	return fmt.Sprintf("%s [%s–%s] (%s)", times(r.median), times(r.least), times(r.most), m.peers[peer].name)
}

// peaks returns the ratio of memory.
func (j *judged) peaks() string {
	text := times(j.theirs / j.ours)
	if j.atLeast {
		return "> " + text
	}
	return text
}

// times rounds down, so that no bound is reached by rounding.
func times(v float64) string {
	if v >= 10 {
		return fmt.Sprintf("%.0fx", math.Floor(v))
	}
	return fmt.Sprintf("%.1fx", math.Floor(v*10)/10)
}

func atLeast(bound float64) string {
	if bound == 0 {
		return "-"
	}
	return fmt.Sprintf("≥ %.0fx", bound)
}

// brief writes a time with three digits.
func brief(d time.Duration) string {
	ms := float64(d) / 1e6
	switch {
	case ms >= 100_000:
		return fmt.Sprintf("%.0f s", ms/1e3)
	case ms >= 1_000:
		return fmt.Sprintf("%.3g s", ms/1e3)
	}
	return fmt.Sprintf("%.3g ms", ms)
}
