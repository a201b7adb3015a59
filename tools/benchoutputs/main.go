// Command benchoutputs measures what the files that a run leaves cost: it runs
// one replay plain and with them, in turn, and compares whole commands.
//
//	go run ./tools/benchoutputs
//	go run ./tools/benchoutputs -pairs 41 -binary bin/replay
//
// It ends with exit code 1 when per-request file and timeline together take more
// than the bound. Times are real time, so it wants a machine with nothing else
// to do.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"text/tabwriter"

	"github.com/replay-llm/replay/tools/stopwatch"
)

func main() { os.Exit(newSettings().tool.Run(os.Args[1:], os.Stdout, os.Stderr)) }

// settings are the flags.
type settings struct {
	tool  stopwatch.Tool
	bound float64
}

func newSettings() *settings {
	s := new(settings)
	s.tool = stopwatch.Tool{Name: "benchoutputs", Pairs: 21, Unit: "pairs of runs per row", Bind: s.bindFlags, Measure: s.printTable}
	return s
}

func (s *settings) bindFlags(fs *flag.FlagSet) {
	fs.Float64Var(&s.bound, "bound", 1.5, "most that a run with per-request file and timeline may take, in runs without")
}

// row is outputs whose cost is measured.
type row struct {
	name   string
	judged bool
	args   func(dir string) []string
}

func listRows() []row {
	at := filepath.Join
	return []row{
		{"--requests .parquet", false, func(dir string) []string { return []string{"--requests", at(dir, "r.parquet")} }},
		{"--requests .jsonl", false, func(dir string) []string { return []string{"--requests", at(dir, "r.jsonl")} }},
		{"--timeline", false, func(dir string) []string { return []string{"--timeline", at(dir, "t.json")} }},
		{"--out", false, func(dir string) []string { return []string{"--out", at(dir, "run")} }},
		{"--requests .parquet --timeline", true, func(dir string) []string {
			return []string{"--requests", at(dir, "r.parquet"), "--timeline", at(dir, "t.json")}
		}},
	}
}

// printTable prints the table and reports whether the bound holds.
func (s *settings) printTable(ctx context.Context, dir string, out io.Writer) (held bool, err error) {
	fmt.Fprintf(out, "%s, 8 workers, KV router; %d pairs of whole commands on %d cores, medians\n", filepath.Base(s.tool.Trace), s.tool.Pairs, runtime.NumCPU())
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "with\tplain ms\tms\tratio\tCPU plain ms\tCPU ms\t\n")
	held = true
	for _, r := range listRows() {
		p, err := s.measureRow(ctx, dir, r)
		if err != nil {
			return false, err
		}
		verdict := ""
		if r.judged {
			verdict = fmt.Sprintf("  at most %.2f: ok", s.bound)
			if p.ratio > s.bound {
				held, verdict = false, fmt.Sprintf("  at most %.2f: MISSED", s.bound)
			}
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t%s\n", r.name, p.plain.wall, p.with.wall, p.ratio, p.plain.cpu, p.with.cpu, verdict)
	}
	return held, table.Flush()
}

// cost is what a command took, in ms.
type cost struct{ wall, cpu float64 }

// pairs are the medians of a row; ratio is that of the ratios pair by pair.
type pairs struct {
	plain, with cost
	ratio       float64
}

// measureRow runs the pairs of a row; the first pair is not counted. No file is there
// yet when it is written.
func (s *settings) measureRow(ctx context.Context, dir string, r row) (pairs, error) {
	var plain, with []cost
	var ratios []float64
	for i := range s.tool.Pairs + 1 {
		files, err := os.MkdirTemp(dir, "files")
		if err != nil {
			return pairs{}, err
		}
		a, err := s.runOnce(ctx)
		if err != nil {
			return pairs{}, err
		}
		b, err := s.runOnce(ctx, r.args(files)...)
		if err != nil {
			return pairs{}, err
		}
		if err := os.RemoveAll(files); err != nil {
			return pairs{}, err
		}
		if i > 0 {
			plain, with, ratios = append(plain, a), append(with, b), append(ratios, b.wall/a.wall)
		}
	}
	return pairs{medianCost(plain), medianCost(with), stopwatch.Median(ratios)}, nil
}

// runOnce runs the replay.
func (s *settings) runOnce(ctx context.Context, outputs ...string) (cost, error) {
	args := append([]string{"trace", s.tool.Trace, "--workers", "8", "--router", "kv", "--block-size", "512"}, outputs...)
	c, err := s.tool.Once(ctx, args...)
	return cost{stopwatch.Milliseconds(c.Wall), stopwatch.Milliseconds(c.CPU)}, err
}

func medianCost(all []cost) cost {
	var wall, cpu []float64
	for _, c := range all {
		wall, cpu = append(wall, c.wall), append(cpu, c.cpu)
	}
	return cost{stopwatch.Median(wall), stopwatch.Median(cpu)}
}
