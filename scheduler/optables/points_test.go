package optables

import (
	"bufio"
	"math"
	"os"
	"testing"

	"github.com/replay-llm/replay/internal/json"
)

// recorded is a time that tools/optables/points.py computed from the Parquet files.
type recorded struct {
	File   string  `json:"file"`
	Op     string  `json:"op"`
	Engine string  `json:"engine"`
	Args   []any   `json:"args"`
	Ms     float64 `json:"ms"`
}

func (p *recorded) int(i int) int     { return int(p.Args[i].(float64)) }
func (p *recorded) text(i int) string { return p.Args[i].(string) }

// engine returns the engine of the recorded time.
func (p *recorded) engine() Engine {
	for _, e := range []Engine{VLLM, SGLang, TRTLLM} {
		if e.String() == p.Engine {
			return e
		}
	}
	panic(p.Engine)
}

func (p *recorded) look(t *Tables) Time {
	const bf16 = "bfloat16"
	switch p.Op {
	case "gemm":
		return t.GEMM(p.text(0), p.int(1), p.int(2), p.int(3))
	case "generation":
		return t.Generation(Attention{p.int(0), p.int(1), 128, 0, bf16}, p.int(2), p.int(3))
	case "context":
		return t.Context(Attention{p.int(0), p.int(1), 128, 0, bf16}, p.int(2), p.int(3), p.int(4))
	case "latent_generation":
		return t.LatentGeneration(Latent{Heads: p.int(0), Type: bf16, KV: bf16}, p.int(1), p.int(2))
	case "latent_context":
		return t.LatentContext(Latent{Heads: p.int(0), Type: bf16, KV: bf16}, p.int(1), p.int(2), p.int(3))
	case "module_generation":
		found, _ := t.LatentModule(Latent{Heads: p.int(2), Type: bf16, KV: p.text(1), GEMM: p.text(0)}, false, p.int(3), p.int(4), 0)
		return found
	case "product":
		return t.LatentProduct(p.text(0), p.int(1) == 1, p.int(2), p.int(3))
	case "experts":
		return t.Experts(p.engine(), Experts{p.text(1), p.int(2), p.int(3), p.int(4), p.int(5), p.int(6), p.int(7), p.text(8)}, p.int(9))
	case "all_reduce":
		return t.AllReduce(p.engine(), p.int(0), float64(p.int(1)))
	}
	panic(p.Op)
}

// readPoints returns the recorded times.
func readPoints(t *testing.T) (all []recorded) {
	t.Helper()
	f, err := os.Open("testdata/points.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var p recorded
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// openExtract returns the part of an engine's tables that the tests use.
func openExtract(t *testing.T, name string) *Tables {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + Extension)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := Open(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tables
}

// Lookups in an engine's own rows equal the values that tools/optables/points.py computed from the Parquet files.
func TestLookupsMatchParquet(t *testing.T) {
	open := map[string]*Tables{}
	seen := map[string]int{}
	for _, p := range readPoints(t) {
		if open[p.File] == nil {
			open[p.File] = openExtract(t, p.File)
		}
		found := p.look(open[p.File])
		if d := found.Ms/p.Ms - 1; !(math.Abs(d) < 5e-4) {
			t.Errorf("%s %s %v: %.6g ms (%v), want %.6g (%+.2f%%)", p.File, p.Op, p.Args, found.Ms, found.Source, p.Ms, 100*d)
		}
		if found.Source == Filled {
			t.Errorf("%s %s %v: filled, want a measurement", p.File, p.Op, p.Args)
		}
		seen[p.Op]++
	}
	for _, op := range []string{"gemm", "generation", "context", "latent_generation", "latent_context", "module_generation", "product", "experts", "all_reduce"} {
		if seen[op] < 10 {
			t.Errorf("%d points of %s, want at least 10", seen[op], op)
		}
	}
}
