package bench

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/replay/offline"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/tools/benchpeer/row"
)

// workload reads or generates the requests of a row.
func workload(tb testing.TB, r *row.Row) *loadgen.Workload {
	tb.Helper()
	if r.Source == row.Synthetic {
		w, err := loadgen.NewSynthetic(loadgen.Synthetic{
			Requests: r.Requests, Input: r.Input, Output: r.Output, Interval: 1, Turns: 1,
			Block: r.BlockTokens, Seed: seed, Compat: true,
		})
		if err != nil {
			tb.Fatal(err)
		}
		return w
	}
	path, err := r.Source.Path()
	if err != nil {
		tb.Skipf("skipped: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if r.Requests > 0 {
		var long bytes.Buffer
		if err := row.Tile(&long, bytes.NewReader(text), path, r.Requests); err != nil {
			tb.Fatal(err)
		}
		text = long.Bytes()
	}
	w, err := registry.Read(bytes.NewReader(text), path, formats.Options{Format: formats.Mooncake, TraceBlock: row.TraceBlock, Compat: true})
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// seed is the default seed of the command.
const seed = 42

// config returns the configuration of a row, as the command makes it from the row's arguments.
func config(tb testing.TB, r *row.Row, w *loadgen.Workload) offline.Config {
	tb.Helper()
	c := offline.Config{Config: harness.Config{
		Workload: w, Admission: loadgen.Admission{Speedup: 1, MaxInFlight: r.InFlight, Disaggregated: r.Disaggregated()},
		Topology: engines.Topology{Seed: seed, Compat: true},
	}}
	if r.InFlight > 0 {
		c.Admission.Mode = loadgen.Concurrency
	}
	if r.KV {
		c.Router = policy.KV
	}
	if r.Disaggregated() {
		c.Pools = engines.TwoPools(pool(tb, r, "prefill", r.Prefill), pool(tb, r, "decode", r.Decode))
	} else {
		c.Pools = []engines.Pool{pool(tb, r, "", r.Workers)}
	}
	return c
}

func pool(tb testing.TB, r *row.Row, role string, workers int) engines.Pool {
	tb.Helper()
	args, err := engineargs.Parse([]byte(r.EngineArgs(role)), engineargs.Options{Compat: true})
	if err != nil {
		tb.Fatal(err)
	}
	return engines.Pool{Engine: args, Count: workers}
}

// replay runs c once.
func replay(tb testing.TB, c offline.Config) *collector.Report {
	tb.Helper()
	result, err := offline.Run(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	return result.Report
}
