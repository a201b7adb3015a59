package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/scheduler/optables"
)

// extract is the part of one engine's tables that the tests look up: what the passes of one model need, and the matrices
// around those.
type extract struct {
	name     string
	gpu      string
	engine   optables.Engine
	matrices []matrix
	kvHeads  int   // of attention on this GPU
	latent   []int // heads of latent attention
	product  int   // heads of the products with absorbed weights
	experts  []int // hidden, inter, per token, count, TP, EP
	dtypes   []string
	gpus     int // of all-reduces
}

// matrix is a matrix of a type: outputs and inputs.
type matrix struct {
	dtype string
	n, k  int
}

// listExtracts returns the parts that are kept in scheduler/optables/testdata.
func listExtracts() []extract {
	const bf16 = "bfloat16"
	return []extract{
		{
			name: "h100-vllm", gpu: "h100", engine: optables.VLLM, kvHeads: 2, gpus: 4,
			matrices: []matrix{{bf16, 2560, 8192}, {bf16, 8192, 2048}, {bf16, 14336, 8192}, {bf16, 8192, 7168}, {bf16, 32064, 8192}},
		},
		{
			name: "rtxpro6000-vllm", gpu: "rtxpro6000", engine: optables.VLLM, kvHeads: 8,
			matrices: []matrix{{bf16, 6144, 4096}, {bf16, 4096, 4096}, {bf16, 28672, 4096}, {bf16, 4096, 14336}, {bf16, 128256, 4096}},
		},
		{
			name: "h100-sglang", gpu: "h100", engine: optables.SGLang, kvHeads: 4, gpus: 2,
			matrices: []matrix{{bf16, 5120, 5120}, {bf16, 5120, 4096}, {bf16, 25600, 5120}, {bf16, 5120, 12800}, {bf16, 75968, 5120}},
		},
		{
			name: "gb300-sglang", gpu: "gb300", engine: optables.SGLang, latent: []int{16, 32, 64}, product: 16, gpus: 4,
			experts: []int{7168, 2048, 8, 384, 4, 1}, dtypes: []string{"nvfp4", bf16},
			matrices: []matrix{
				{bf16, 2112, 7168}, {bf16, 3072, 1536}, {bf16, 7168, 2048}, {bf16, 4096, 512}, {bf16, 384, 7168}, {bf16, 40960, 7168},
				{"nvfp4", 1024, 7168}, {"nvfp4", 7168, 512},
			},
		},
		{
			name: "b200-trtllm", gpu: "b200", engine: optables.TRTLLM, kvHeads: 1, latent: []int{16}, product: 16, gpus: 8,
			experts: []int{7168, 2048, 8, 256, 8, 1}, dtypes: []string{"fp8_block", "fp8"},
			matrices: []matrix{{"fp8_block", 2112, 7168}, {"fp8_block", 7168, 2048}},
		},
	}
}

// keeps reports whether a curve belongs to the extract.
func (x *extract) keeps(c optables.Curve) bool {
	switch c.Table {
	case "gemm":
		return slices.ContainsFunc(x.matrices, func(m matrix) bool {
			return m.dtype == c.Texts[0] && isNear(m.n, c.Values[0]) && isNear(m.k, c.Values[1])
		})
	case "context_attention", "generation_attention": // head size, key-value heads, window, heads
		return x.kvHeads > 0 && c.Texts[0] == "bfloat16" && c.Values[0] == 128 && c.Values[1] == x.kvHeads && c.Values[2] == 0
	case "context_mla", "generation_mla":
		return slices.Contains(x.latent, c.Values[0])
	case "mla_context_module", "mla_generation_module":
		return slices.Contains(x.latent, c.Values[0]) && slices.Contains(x.dtypes, c.Texts[2])
	case "mla_bmm":
		return c.Values[0] == x.product
	case "moe":
		return slices.Contains(x.dtypes, c.Texts[1]) && slices.Equal(c.Values, x.experts)
	case "custom_allreduce":
		return c.Values[0] == x.gpus
	}
	return false
}

// isNear reports whether a size is within a factor of 4 of another.
func isNear(a, b int) bool { return math.Abs(math.Log2(float64(a)/float64(b))) <= 2 }

// writeExtracts writes the parts for the tests, of the engines' own rows.
func writeExtracts(from, dir string) error {
	for _, x := range listExtracts() {
		t, err := optables.ReadOwn(from, x.gpu, x.engine)
		if err != nil {
			return err
		}
		file, err := t.Select(x.keeps).Encode()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, x.name+optables.Extension), file, 0o644); err != nil {
			return err
		}
	}
	return nil
}
