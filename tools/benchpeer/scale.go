package main

import (
	"context"
	"fmt"

	"github.com/replay-llm/replay/tools/benchpeer/row"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// Bounds of growth.
const (
	proportion   = 1.15 // factor on the time per request of a smaller trace
	scaleMiB     = 2048 // peak memory of the largest trace
	manyWorkers  = 2.0  // factor on the time with few workers
	scaleWorkers = 64
)

// growth contains the time and memory of one case.
type growth struct {
	row                 row.Row
	simulation, command float64 // medians in ms
	peakMiB             float64 // the maximum of the runs
}

// measureScaling measures the growth and returns the number of missed bounds.
func (c *comparison) measureScaling(ctx context.Context) (missed int, err error) {
	c.printPreface(fmt.Sprintf("Rounds: %d; times are medians", c.pairs))
	share := 1
	if c.quick {
		share = 16
	}
	requests, err := c.measureGrowth(ctx, onConversation(scaleWorkers, row.ConversationRequests/share),
		onConversation(scaleWorkers, 120_000/share), onConversation(scaleWorkers, 1_000_000/share))
	if err != nil {
		return 0, err
	}
	workers, err := c.measureGrowth(ctx, onConversation(8, row.ConversationRequests), onConversation(512, row.ConversationRequests))
	if err != nil {
		return 0, err
	}
	return c.printRequests(requests) + c.printWorkers(workers), nil
}

// onConversation returns a row of the conversation trace with the KV router.
func onConversation(workers, requests int) row.Row {
	return row.Row{
		Title:  fmt.Sprintf("%d requests, %d workers", requests, workers),
		Source: row.Conversation, Requests: requests, Engine: "vllm", BlockTokens: row.TraceBlock, Workers: workers, KV: true,
	}
}

// measureGrowth runs all rows once in each round.
func (c *comparison) measureGrowth(ctx context.Context, rows ...row.Row) ([]growth, error) {
	runs := make([][]outcome, len(rows))
	for round := range c.pairs + 1 {
		for i := range rows {
			trace, err := c.tracePath(rows[i].Source, rows[i].Requests)
			if err != nil {
				return nil, err
			}
			o, err := c.runOnce(ctx, &c.ours, rows[i].Title, rows[i].Args(trace))
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first round loads the files into memory
				runs[i] = append(runs[i], o)
			}
		}
	}
	all := make([]growth, len(rows))
	for i, r := range rows {
		median := func(f figure) float64 {
			return stopwatch.Median(runs[i], func(o outcome) float64 { return o.took[f].Seconds() * 1000 })
		}
		all[i] = growth{row: r, simulation: median(simulation), command: median(command)}
		for _, o := range runs[i] {
			all[i].peakMiB = max(all[i].peakMiB, o.peakMiB)
		}
	}
	return all, nil
}

// printRequests compares the time per request of each trace with that of each smaller trace.
func (c *comparison) printRequests(all []growth) (missed int) {
	fmt.Fprintf(c.out, "| requests on %d workers | simulation | µs per request | against fewer, bound %.2f | command | µs per request | peak MiB, bound %d | verdict |\n",
		scaleWorkers, proportion, scaleMiB)
	fmt.Fprintln(c.out, "|---|---|---|---|---|---|---|---|")
	for i, g := range all {
		n := float64(g.row.Requests)
		against, verdict := "", "ok"
		for _, fewer := range all[:i] {
			more := g.simulation / n / (fewer.simulation / float64(fewer.row.Requests))
			against += fmt.Sprintf("%.3f of %d ", more, fewer.row.Requests)
			if more > proportion {
				verdict = "MISSED: proportion"
			}
		}
		if g.peakMiB >= scaleMiB {
			verdict = "MISSED: memory"
		}
		if verdict != "ok" {
			missed++
		}
		fmt.Fprintf(c.out, "| %d | %.0f ms | %.2f | %s| %.0f ms | %.2f | %.0f | %s |\n",
			g.row.Requests, g.simulation, 1e3*g.simulation/n, against, g.command, 1e3*g.command/n, g.peakMiB, verdict)
	}
	return missed
}

// printWorkers compares the time with many workers with the time with few workers.
func (c *comparison) printWorkers(all []growth) (missed int) {
	fmt.Fprintf(c.out, "\n| workers, %d requests | simulation | against fewer, bound %.1f | command | peak MiB | verdict |\n",
		all[0].row.Requests, manyWorkers)
	fmt.Fprintln(c.out, "|---|---|---|---|---|---|")
	for _, g := range all {
		more := g.simulation / all[0].simulation
		fmt.Fprintf(c.out, "| %d | %.1f ms | %.2f | %.1f ms | %.0f | %s |\n",
			g.row.Workers, g.simulation, more, g.command, g.peakMiB, countMissed(&missed, more <= manyWorkers))
	}
	return missed
}
