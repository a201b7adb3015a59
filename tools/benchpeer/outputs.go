package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/replay-llm/replay/tools/stopwatch"
)

// outputs measures the cost of the output files of a run. outputs runs one replay with and without files alternately,
// and compares whole commands.
type outputs struct {
	*bench
	trace string
	bound float64 // maximum cost of per-request file and timeline together
}

func runOutputs(args []string, stdout, stderr io.Writer) int {
	o := &outputs{bench: newBench("benchoutputs", 21, "pairs of runs per row", stdout, stderr)}
	o.flags.StringVar(&o.trace, "trace", "", "the trace to replay; empty: the conversation trace")
	o.flags.Float64Var(&o.bound, "bound", 1.5, "most that a run with per-request file and timeline may take, in runs without")
	return o.run(args, func() error { return nil }, o.measure)
}

// measure prints the table and returns the number of missed bounds.
func (o *outputs) measure(ctx context.Context) (missed int, err error) {
	var ok bool
	if o.trace, ok = o.findTrace(o.trace); !ok {
		return 0, nil
	}
	fmt.Fprintf(o.out, "%s, 8 workers, KV router; %d pairs of whole commands on %d cores, medians\n", filepath.Base(o.trace), o.pairs, runtime.NumCPU())
	table := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(table, "with\tplain ms\tms\tratio\tCPU plain ms\tCPU ms\t\n")
	const judged = "--requests .parquet --timeline"
	for _, r := range []struct{ name, args string }{
		{"--requests .parquet", "--requests DIR/r.parquet"},
		{"--requests .jsonl", "--requests DIR/r.jsonl"},
		{"--timeline", "--timeline DIR/t.json"},
		{"--out", "--out DIR/run"},
		{judged, "--requests DIR/r.parquet --timeline DIR/t.json"},
	} {
		pairs, err := o.runPairs(ctx, r.args)
		if err != nil {
			return missed, err
		}
		median := func(of func(plainAndWith) float64) float64 { return stopwatch.Median(pairs, of) }
		ratio := median(func(p plainAndWith) float64 { return float64(p.with.Wall) / float64(p.plain.Wall) })
		verdict := ""
		if r.name == judged {
			verdict = fmt.Sprintf("  at most %.2f: %s", o.bound, countMissed(&missed, ratio <= o.bound))
		}
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.2f\t%.1f\t%.1f\t%s\n", r.name,
			median(func(p plainAndWith) float64 { return p.plain.Wall.Seconds() * 1000 }),
			median(func(p plainAndWith) float64 { return p.with.Wall.Seconds() * 1000 }), ratio,
			median(func(p plainAndWith) float64 { return p.plain.CPU.Seconds() * 1000 }),
			median(func(p plainAndWith) float64 { return p.with.CPU.Seconds() * 1000 }), verdict)
	}
	return missed, table.Flush()
}

// plainAndWith is a pair of runs without files and with files.
type plainAndWith struct{ plain, with stopwatch.Cost }

// runPairs runs the pairs of a row, except the first pair, which is not counted. Each run writes to a new directory.
func (o *outputs) runPairs(ctx context.Context, files string) ([]plainAndWith, error) {
	plain := []string{"trace", o.trace, "--workers", "8", "--router", "kv", "--block-size", "512"}
	var pairs []plainAndWith
	for range o.pairs + 1 {
		dir, err := os.MkdirTemp(o.dir, "files")
		if err != nil {
			return nil, err
		}
		a, err := stopwatch.Once(ctx, o.binary, plain...)
		if err != nil {
			return nil, err
		}
		with := plain
		for _, word := range strings.Fields(files) {
			with = append(with, strings.Replace(word, "DIR", dir, 1))
		}
		b, err := stopwatch.Once(ctx, o.binary, with...)
		if err != nil {
			return nil, err
		}
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
		pairs = append(pairs, plainAndWith{a, b})
	}
	return pairs[1:], nil
}
