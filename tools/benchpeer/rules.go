package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/tools/benchpeer/row"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// measureRules measures the rows of engine rules; this program runs both sides. measureRules prints each row at once,
// and returns the number of rows that miss a bound.
func (c *comparison) measureRules(ctx context.Context) (missed int, err error) {
	c.printPreface(fmt.Sprintf("Pairs per row, in turn: %d; a ratio is their median [least–most], of an engine's own rules to the reference's, or to vLLM's where a row says so; of a model with sliding windows to Llama 3.1 8B; of the whole command with two threads to one; all by this program", c.pairs))
	fmt.Fprintln(c.out, "| case | time: own / reference | ratio | bound | peak MiB: own / reference | ratio | bound | verdict |")
	fmt.Fprintln(c.out, "|---|---|---|---|---|---|---|---|")
	profile := filepath.Join(c.dir, "profile.json")
	if err := os.WriteFile(profile, []byte(row.Profile()), 0o600); err != nil {
		return 0, err
	}
	for i := range c.rules {
		r := &c.rules[i]
		pairs, err := c.runRules(ctx, r, profile)
		if ctx.Err() != nil {
			return missed, ctx.Err()
		}
		if err != nil { // the remaining rows may succeed
			fmt.Fprintf(c.out, "| %s | | | | | | | FAILED: %v |\n", r.Title, err)
			missed++
			continue
		}
		fmt.Fprintf(c.out, "| %s | %s |\n", r.Title, describeRules(r, pairs, &missed))
	}
	fmt.Fprintf(c.out, "\n%d rows, %d missed.\n\n", len(c.rules), missed)
	return missed, nil
}

// runRules runs a row alternately with the engine's rules and with the rules for the comparison. In the pairs of such
// a row, theirs is the run with the rules for the comparison.
func (c *comparison) runRules(ctx context.Context, r *row.RulesRow, profile string) (pairs []pair, err error) {
	requests := 0
	if r.Source != row.Synthetic {
		requests = r.Requests
	}
	trace, err := c.tracePath(r.Source, requests)
	if err != nil {
		return nil, err
	}
	own, reference := c.ours, c.ours
	own.name, own.tail = "own rules", r.Own(profile)
	reference.name, reference.tail = "other rules", r.Others()
	for range c.pairs + 1 {
		var p pair
		for _, run := range []struct {
			program *program
			into    *outcome
		}{{&own, &p.ours}, {&reference, &p.theirs}} {
			if *run.into, err = c.runOnce(ctx, run.program, r.Title, r.Args(trace)); err != nil {
				return nil, err
			}
			if why := run.into.unfinished; why != "" {
				return nil, fmt.Errorf("%s: %s", run.program.name, why)
			}
		}
		pairs = append(pairs, p)
	}
	return pairs[1:], nil // the first pair loads the files into memory
}

// describeRules returns the cells of a row, and counts the row if it misses a bound.
func describeRules(r *row.RulesRow, pairs []pair, missed *int) string {
	median := func(value func(p pair) float64) float64 { return stopwatch.Median(pairs, value) }
	figure := simulation
	if r.Threads {
		figure = command // the command also reads the trace and writes the report with its threads
	}
	slower := func(p pair) float64 { return float64(p.ours.took[figure]) / float64(p.theirs.took[figure]) }
	larger := func(p pair) float64 { return p.ours.peakMiB / p.theirs.peakMiB }
	least, most := math.Inf(1), 0.0
	for _, p := range pairs {
		least, most = min(least, slower(p)), max(most, slower(p))
	}
	time, memory := median(slower), median(larger)
	held := time <= r.Simulation && memory <= row.RulesMemory
	same := !slices.ContainsFunc(pairs, func(p pair) bool { return p.ours.completed != p.theirs.completed })
	verdict := countMissed(missed, held && same)
	if !same {
		verdict += ": not the same requests"
	}
	return fmt.Sprintf("%.3g ms / %.3g ms | %s [%s–%s] | ≤ %.2gx | %.1f / %.1f | %s | ≤ %.1fx | %s",
		median(func(p pair) float64 { return p.ours.took[figure].Seconds() * 1000 }),
		median(func(p pair) float64 { return p.theirs.took[figure].Seconds() * 1000 }),
		formatTimes(time), formatTimes(least), formatTimes(most), r.Simulation,
		median(func(p pair) float64 { return p.ours.peakMiB }), median(func(p pair) float64 { return p.theirs.peakMiB }),
		formatTimes(memory), row.RulesMemory, verdict)
}

// formatTimes rounds up, so that rounding cannot meet a bound.
func formatTimes(v float64) string { return fmt.Sprintf("%.2fx", math.Ceil(v*100)/100) }
