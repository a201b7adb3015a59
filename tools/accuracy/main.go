// Command accuracy replays what measured servers served, knowing nothing of them but
// their GPU, model and settings, and prints how far data sheets are off.
//
//	go run ./tools/accuracy [-shared ../shared] [-write docs/accuracy.md]
//
// With -write the table replaces the one between the marks of a document. Read main.go,
// then servers.go. It exits with 3 when a bound is missed: mean TPOT within 15 %, KV
// tokens within 5 %.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// Bounds of relative errors.
const (
	tpotBound = 0.15
	kvBound   = 0.05
)

// Marks around the table in a document.
const (
	beginMark = "<!-- data sheets: made by make accuracy -->"
	endMark   = "<!-- end of data sheets -->"
)

func main() {
	shared := flag.String("shared", "../shared", "directory of measured runs")
	write := flag.String("write", "", "document whose table is replaced")
	flag.Parse()
	missed, err := run(os.Stdout, *shared, *write)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "accuracy:", err)
		os.Exit(1)
	case missed > 0:
		fmt.Fprintf(os.Stderr, "accuracy: %d values are out of bounds\n", missed)
		os.Exit(3)
	}
}

// run prints the table, writes it into a document if there is one, and counts what is
// out of bounds.
func run(out io.Writer, shared, document string) (missed int, err error) {
	table := &strings.Builder{}
	fmt.Fprintln(table, "| Server | KV tokens, reported | by data sheets | TPOT measured, ms | by data sheets | TTFT measured, ms | by data sheets | latency |")
	fmt.Fprintln(table, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	dir, err := os.MkdirTemp("", "accuracy")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	for _, s := range listServers() {
		row, n, err := s.judge(shared, filepath.Join(dir, "trace.jsonl"))
		if err != nil {
			return missed, fmt.Errorf("%s: %w", s.name, err)
		}
		missed += n
		fmt.Fprintln(table, row)
	}
	fmt.Fprint(out, table)
	if document == "" {
		return missed, nil
	}
	return missed, replaceTable(document, table.String())
}

// judge returns the server's row, and how many of its values are out of bounds.
func (s *server) judge(shared, trace string) (row string, missed int, err error) {
	requests, err := s.read(shared)
	if err != nil {
		return "", 0, err
	}
	fit, err := s.fit()
	if err != nil {
		return "", 0, err
	}
	budget, err := fit.Check()
	if err != nil {
		return "", 0, err
	}
	measured := meansOf(requests)
	got, err := s.replay(&fit, &budget, requests, trace)
	if err != nil {
		return "", 0, err
	}
	kv := "not reported"
	if s.kvTokens > 0 {
		off := float64(budget.Tokens)/float64(s.kvTokens) - 1
		missed += countBeyond(off, kvBound)
		kv = fmt.Sprint(s.kvTokens)
		row = formatPercent(off)
	}
	missed += countBeyond(got.tpot/measured.tpot-1, tpotBound)
	mark := ""
	if s.overload {
		mark = " (queue)"
	}
	return fmt.Sprintf("| %s | %s | %s | %.1f | %s | %.0f%s | %s | %s |", s.name, kv, row, measured.tpot, formatPercent(got.tpot/measured.tpot-1),
		measured.ttft, mark, formatPercent(got.ttft/measured.ttft-1), formatPercent(got.e2e/measured.e2e-1)), missed, nil
}

// countBeyond returns 1 for a relative error beyond its bound.
func countBeyond(off, bound float64) int {
	if math.Abs(off) > bound {
		return 1
	}
	return 0
}

func formatPercent(off float64) string { return fmt.Sprintf("%+.1f %%", 100*off) }

// means are the means of requests.
type means struct{ ttft, tpot, e2e float64 }

func meansOf(requests []request) means {
	var m means
	n := float64(len(requests))
	for _, r := range requests {
		m.ttft += r.ttft / n
		m.tpot += r.tpot / n
		m.e2e += r.e2e / n
	}
	return m
}

// replay returns the means of a replay of requests at their arrivals.
func (s *server) replay(fit *hardware.Fit, budget *hardware.Budget, requests []request, trace string) (means, error) {
	block := 64
	if len(requests[0].hashes)*16 >= requests[0].input {
		block = 16
	}
	if err := writeTrace(trace, requests); err != nil {
		return means{}, err
	}
	path := timing.RooflinePrefix + s.gpu + "/" + s.model
	if fit.Eager() {
		path += "?graphs=none"
	}
	text, err := json.Marshal(map[string]any{
		"num_gpu_blocks": budget.Blocks, "block_size": fit.BlockTokens, "max_num_seqs": fit.MaxSeqs, "max_num_batched_tokens": fit.MaxBatch,
		"scheduler_profile": "vllm-0.19", "planner_profile_data": path,
	})
	if err != nil {
		return means{}, err
	}
	args, err := engineargs.Parse(text, engineargs.Options{})
	if err != nil {
		return means{}, err
	}
	topology := replay.Topology{Pools: replay.OnePool(args, s.pods), Router: policy.RoundRobin}
	if s.pods > 1 {
		topology.Router = policy.KV
	}
	spec := replay.Spec{Trace: &replay.Trace{Path: trace, BlockTokens: block}, Speedup: 1, Topology: topology}
	result, err := spec.Run(context.Background(), replay.Streams{})
	if err != nil {
		return means{}, err
	}
	r := result.Report
	if r.Completed != len(requests) {
		return means{}, fmt.Errorf("%d of %d requests were completed", r.Completed, len(requests))
	}
	return means{ttft: r.TTFT.Mean, tpot: r.TPOT.Mean, e2e: r.E2E.Mean}, nil
}

// writeTrace writes requests as a Mooncake trace.
func writeTrace(path string, requests []request) error {
	text := &bytes.Buffer{}
	encoder := json.NewEncoder(text)
	for _, r := range requests {
		if err := encoder.Encode(map[string]any{"timestamp": r.arrival, "input_length": r.input, "output_length": r.output, "hash_ids": r.hashes}); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}

// replaceTable puts the table between the marks of a document.
func replaceTable(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), beginMark)
	_, after, closed := strings.Cut(rest, endMark)
	if !ok || !closed {
		return errors.New(path + ": no marks around the table of data sheets")
	}
	return os.WriteFile(path, []byte(before+beginMark+"\n\n"+table+"\n"+endMark+after), 0o644)
}
