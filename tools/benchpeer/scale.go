package main

import (
	"context"
	"fmt"
	"os"

	"github.com/replay-llm/replay/tools/benchpeer/row"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// What growth may cost.
const (
	proportion   = 1.15 // of the time per request in a smaller trace
	scaleMiB     = 2048 // peak memory of the largest trace
	manyWorkers  = 2.0  // times the time of few workers
	scaleWorkers = 64
)

// series are runs of some cases in turn, in round after round.
type series struct {
	rows []row.Row
	runs [][]outcome // of each row
}

// measureScaling measures growth and counts what misses a bound.
func (b *bench) measureScaling(ctx context.Context) (missed int, err error) {
	path := row.Conversation.Path()
	if _, err := os.Stat(path); err != nil {
		fmt.Fprintf(b.out, "benchpeer: skipped, there is no trace at %s\n", path)
		return 0, nil
	}
	b.printPreface(fmt.Sprintf("Rounds: %d; times are medians", b.pairs))
	requests, err := b.runSeries(ctx, b.growingRequests())
	if err != nil {
		return 0, err
	}
	workers, err := b.runSeries(ctx, growingWorkers())
	if err != nil {
		return 0, err
	}
	return b.printRequests(requests) + b.printWorkers(workers), nil
}

// onConversation returns the conversation trace with the KV router.
func onConversation(workers, requests int) row.Row {
	return row.Row{
		Title:  fmt.Sprintf("%d requests, %d workers", requests, workers),
		Source: row.Conversation, Requests: requests, Engine: "vllm", BlockTokens: row.TraceBlock, Workers: workers, KV: true,
	}
}

func (b *bench) growingRequests() []row.Row {
	share := 1
	if b.quick {
		share = 16
	}
	return []row.Row{
		onConversation(scaleWorkers, row.ConversationRequests/share),
		onConversation(scaleWorkers, 120_000/share),
		onConversation(scaleWorkers, 1_000_000/share),
	}
}

func growingWorkers() []row.Row {
	return []row.Row{onConversation(8, row.ConversationRequests), onConversation(512, row.ConversationRequests)}
}

// runSeries runs the rows in turn.
func (b *bench) runSeries(ctx context.Context, rows []row.Row) (*series, error) {
	s := &series{rows: rows, runs: make([][]outcome, len(rows))}
	for round := range b.pairs {
		for i := range rows {
			trace, err := b.tracePath(rows[i].Source, rows[i].Requests)
			if err != nil {
				return nil, err
			}
			args := rows[i].Args(trace)
			if round == 0 {
				if _, err := b.runOnce(ctx, &b.ours, &rows[i], args); err != nil { // not counted: files get into memory
					return nil, err
				}
			}
			o, err := b.runOnce(ctx, &b.ours, &rows[i], args)
			if err != nil {
				return nil, err
			}
			s.runs[i] = append(s.runs[i], o)
		}
	}
	return s, nil
}

func (s *series) medianOf(i int, of func(*outcome) float64) float64 {
	var all []float64
	for k := range s.runs[i] {
		all = append(all, of(&s.runs[i][k]))
	}
	return stopwatch.Median(all)
}

func (s *series) peakOf(i int) float64 {
	peak := 0.0
	for _, o := range s.runs[i] {
		peak = max(peak, o.peakMiB)
	}
	return peak
}

// printRequests holds the time per request of each trace against that of each
// smaller one.
func (b *bench) printRequests(s *series) (missed int) {
	fmt.Fprintf(b.out, "| requests on %d workers | simulation | µs per request | against fewer, bound %.2f | command | µs per request | peak MiB, bound %d | verdict |\n",
		scaleWorkers, proportion, scaleMiB)
	fmt.Fprintln(b.out, "|---|---|---|---|---|---|---|---|")
	each := make([]float64, len(s.rows))
	for i := range s.rows {
		n := float64(s.rows[i].Requests)
		simulation, command := s.medianOf(i, simulationOf), s.medianOf(i, commandOf)
		each[i] = simulation / n
		against, verdict := "", "ok"
		for k := range i {
			growth := each[i] / each[k]
			against += fmt.Sprintf("%.3f of %d ", growth, s.rows[k].Requests)
			if growth > proportion {
				verdict = "MISSED: proportion"
			}
		}
		if s.peakOf(i) >= scaleMiB {
			verdict = "MISSED: memory"
		}
		if verdict != "ok" {
			missed++
		}
		fmt.Fprintf(b.out, "| %d | %.0f ms | %.2f | %s| %.0f ms | %.2f | %.0f | %s |\n",
			s.rows[i].Requests, simulation/1e6, each[i]/1e3, against, command/1e6, command/n/1e3, s.peakOf(i), verdict)
	}
	return missed
}

// printWorkers holds the time with many workers against that with few.
func (b *bench) printWorkers(s *series) (missed int) {
	fmt.Fprintf(b.out, "\n| workers, %d requests | simulation | against fewer, bound %.1f | command | peak MiB | verdict |\n",
		s.rows[0].Requests, manyWorkers)
	fmt.Fprintln(b.out, "|---|---|---|---|---|---|")
	few := s.medianOf(0, simulationOf)
	for i := range s.rows {
		simulation := s.medianOf(i, simulationOf)
		verdict := "ok"
		if simulation > float64(manyWorkers*few) {
			verdict = "MISSED"
			missed++
		}
		fmt.Fprintf(b.out, "| %d | %.1f ms | %.2f | %.1f ms | %.0f | %s |\n",
			s.rows[i].Workers, simulation/1e6, simulation/few, s.medianOf(i, commandOf)/1e6, s.peakOf(i), verdict)
	}
	return missed
}
