// Command aisimulate replays a trace on the same cluster with NVIDIA's AISimulate and with replay. The command
// compares their reports, time and memory.
//
//	python3.11 -m venv .venv && .venv/bin/pip install aisimulate==0.13.0.dev202610130000000070
//	.venv/bin/pip install --no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1 && .venv/bin/pip install uvloop fastapi pyzmq msgspec blake3
//	go run ./tools/aisimulate -aisimulate .venv/bin/aisimulate [-trace FILE] [-write internal/accuracy/tables.txt]
//
// AISimulate and replay use 8 workers of an H100 with Llama-3.1-8B. Each worker has 6,765 KV blocks of 64 tokens,
// 1,024 seats and 8,192 tokens per pass. AISimulate's KV router belongs to its stack "dynamo". If the stack is not
// installed, the rows are omitted. With -write the table replaces the table of a document. Without AISimulate or the
// trace, the tool prints one line and ends with exit code 0.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/tools/stopwatch"
)

// tableName is the name of the table in a document.
const tableName = "aisimulate"

// The cluster of both programs.
const (
	workers     = 8
	blocks      = 6765
	blockTokens = 64
	seats       = 1024
	passTokens  = 8192
)

// errNoPeer reports that a comparison is not possible.
var errNoPeer = errors.New("nothing to compare with")

// settings are the flags.
type settings struct {
	program, binary, trace, document string
	pairs                            int
}

func main() {
	var s settings
	flag.StringVar(&s.program, "aisimulate", "aisimulate", "AISimulate's `program`")
	flag.StringVar(&s.binary, "binary", "", "replay `binary`; empty: build it")
	flag.StringVar(&s.trace, "trace", "", "`file` of Mooncake rows; empty: the conversation trace of the optional data")
	flag.StringVar(&s.document, "write", "", "replace the table of this `document`")
	flag.IntVar(&s.pairs, "pairs", 3, "`pairs` of runs in turn, of which the medians of the times are taken")
	flag.Parse()
	err := s.run(context.Background(), os.Stdout)
	if errors.Is(err, errNoPeer) {
		fmt.Fprintln(os.Stderr, "aisimulate: skipped:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "aisimulate:", err)
		os.Exit(1)
	}
}

// run measures both programs with both routers and prints the table. run writes the table into a document if one is
// given.
func (s *settings) run(ctx context.Context, out io.Writer) error {
	if _, err := exec.LookPath(s.program); err != nil {
		return fmt.Errorf("%w: %w", errNoPeer, err)
	}
	if s.trace == "" {
		found, err := optional.FindData("traces/mooncake_conversation.jsonl")
		if err != nil {
			return fmt.Errorf("%w: %w", errNoPeer, err)
		}
		s.trace = found
	}
	if err := os.Setenv("DYN_LOG", "error"); err != nil { // otherwise AISimulate logs a line per request
		return err
	}
	dir, err := os.MkdirTemp("", "aisimulate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if s.binary, err = stopwatch.Find(ctx, s.binary, dir); err != nil {
		return err
	}
	var all []comparison
	for _, r := range listRouters() {
		c, err := s.compare(ctx, dir, r)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	table := formatTable(all)
	fmt.Fprint(out, table)
	if s.document == "" {
		return nil
	}
	return accuracy.ReplaceTables(s.document, map[string]string{tableName: table})
}

// routing is a router with its names in both programs.
type routing struct{ title, stack, theirs, ours string }

func listRouters() []routing {
	return []routing{
		{"round robin", "engine", "", "round_robin"},
		{"KV router", "dynamo", "router:\n  policy: kv_router\n", "kv"},
	}
}

// report contains the values that both programs report with the same keys.
type report struct {
	Requests   int     `json:"completed_requests"`
	Reused     float64 `json:"prefix_cache_reused_ratio"`
	MeanTTFT   float64 `json:"mean_ttft_ms"`
	MedianTTFT float64 `json:"median_ttft_ms"`
	P99TTFT    float64 `json:"p99_ttft_ms"`
	MeanTPOT   float64 `json:"mean_tpot_ms"`
	MedianTPOT float64 `json:"median_tpot_ms"`
	Duration   float64 `json:"duration_ms"`
}

// comparison contains the reports of both programs with one router, and the medians of their costs.
type comparison struct {
	routing
	ours, theirs       report
	ourWall, theirWall float64 // wall time in seconds
	ourCPU, theirCPU   float64 // CPU time in seconds
}

// compare runs both programs alternately with one router.
func (s *settings) compare(ctx context.Context, dir string, r routing) (comparison, error) {
	c := comparison{routing: r}
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(s.writeConfig(r)), 0o600); err != nil {
		return c, err
	}
	theirs := []string{"predict", "--stack", r.stack, "-c", config, "--format", "json", "--output-dir", filepath.Join(dir, "out"), "--overwrite"}
	ours := []string{"trace", s.trace, "--workers", fmt.Sprint(workers), "--gpu", "h100", "--model", "llama-3.1-8b", "--router", r.ours, "--max-num-seqs", fmt.Sprint(seats),
		"--max-num-batched-tokens", fmt.Sprint(passTokens), "--block-size", fmt.Sprint(blockTokens), "--num-gpu-blocks", fmt.Sprint(blocks), "--output", "json"}
	var costs [2][]stopwatch.Cost
	for range s.pairs {
		for i, side := range []struct {
			program string
			args    []string
			into    *report
		}{{s.program, theirs, &c.theirs}, {s.binary, ours, &c.ours}} {
			cost, err := runOnce(ctx, side.program, side.args, side.into)
			if err != nil {
				return c, err
			}
			costs[i] = append(costs[i], cost)
		}
	}
	for i, to := range [2][2]*float64{{&c.theirWall, &c.theirCPU}, {&c.ourWall, &c.ourCPU}} {
		*to[0] = stopwatch.Median(costs[i], func(x stopwatch.Cost) float64 { return x.Wall.Seconds() })
		*to[1] = stopwatch.Median(costs[i], func(x stopwatch.Cost) float64 { return x.CPU.Seconds() })
	}
	if c.ours.Requests != c.theirs.Requests {
		return c, fmt.Errorf("%s: %d requests here, %d there", r.title, c.ours.Requests, c.theirs.Requests)
	}
	return c, nil
}

// writeConfig returns AISimulate's configuration of the cluster.
func (s *settings) writeConfig(r routing) string {
	return fmt.Sprintf(`traffic:
  source: {type: trace, paths: [%q], format: mooncake, block_size: 512}
  load: {type: trace_timestamps}
engine:
  model: meta-llama/Meta-Llama-3.1-8B
  hardware: h100_sxm
  backend: vllm
  workers:
    aggregated:
      parallelism: {replicas: %d, tensor: 1}
      scheduler: {max_batched_tokens: %d, max_sequences: %d}
      kv_cache: {block_size: %d, capacity: {type: fixed, blocks: %d}}
%s`, s.trace, workers, passTokens, seats, blockTokens, blocks, r.theirs)
}

// runOnce runs a program and decodes the report that it prints.
func runOnce(ctx context.Context, program string, args []string, into *report) (stopwatch.Cost, error) {
	cost, err := stopwatch.Once(ctx, program, args...)
	if err != nil {
		return cost, err
	}
	if err := json.Unmarshal(cost.Output, into); err != nil {
		return cost, fmt.Errorf("the report of %s: %w", program, err)
	}
	return cost, nil
}

// formatTable returns the table of all comparisons.
func formatTable(all []comparison) string {
	var b strings.Builder
	b.WriteString("| Router |  | AISimulate | replay | difference |\n| --- | --- | --- | --- | --- |\n")
	for i := range all {
		c := &all[i]
		for j, x := range []struct {
			name         string
			theirs, ours float64
			format       string
		}{
			{"prefix-cache hit rate", c.theirs.Reused, c.ours.Reused, "%.3f"},
			{"mean TTFT (ms)", c.theirs.MeanTTFT, c.ours.MeanTTFT, "%.1f"},
			{"median TTFT (ms)", c.theirs.MedianTTFT, c.ours.MedianTTFT, "%.1f"},
			{"p99 TTFT (ms)", c.theirs.P99TTFT, c.ours.P99TTFT, "%.0f"},
			{"mean TPOT (ms)", c.theirs.MeanTPOT, c.ours.MeanTPOT, "%.2f"},
			{"median TPOT (ms)", c.theirs.MedianTPOT, c.ours.MedianTPOT, "%.2f"},
		} {
			title := ""
			if j == 0 {
				title = c.title
			}
			fmt.Fprintf(&b, "| %s | %s | "+x.format+" | "+x.format+" | %+.1f %% |\n", title, x.name, x.theirs, x.ours, 100*(x.ours/x.theirs-1))
		}
		fmt.Fprintf(&b, "|  | time of the command | %.1f s | %.2f s | %.0f times |\n", c.theirWall, c.ourWall, c.theirWall/c.ourWall)
		fmt.Fprintf(&b, "|  | its processor time | %.1f s | %.2f s | %.0f times |\n", c.theirCPU, c.ourCPU, c.theirCPU/c.ourCPU)
	}
	return b.String()
}
