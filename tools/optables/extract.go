package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/replay-llm/replay/scheduler/optables"
)

// extract selects the part of one engine's tables that the tests use for some models.
type extract struct {
	name    string
	gpu     string
	engine  optables.Engine
	dense   []string // types of dense matrices
	kvHeads []int    // key-value heads per GPU
	latent  []int    // heads of latent attention
	product int      // heads of the products with absorbed weights
	experts []int    // hidden, inter, per token, count
	dtypes  []string // types of experts and of latent attention
	gpus    []int    // numbers of GPUs of all-reduces
}

const bf16 = "bfloat16"

// listExtracts returns the extracts in scheduler/optables/testdata.
func listExtracts() []extract {
	return []extract{
		{
			name: "h100-vllm", gpu: "h100", engine: optables.VLLM, dense: []string{bf16}, kvHeads: []int{1, 2, 4, 8}, gpus: []int{2, 4, 8},
			experts: []int{2048, 768, 8, 128}, dtypes: []string{bf16},
		},
		{name: "rtxpro6000-vllm", gpu: "rtxpro6000", engine: optables.VLLM, dense: []string{bf16}, kvHeads: []int{2, 4, 8}, gpus: []int{2, 4}},
		{
			name: "h100-sglang", gpu: "h100", engine: optables.SGLang, dense: []string{bf16}, kvHeads: []int{1, 2, 4, 8}, gpus: []int{2, 4, 8},
			experts: []int{4096, 1536, 8, 128}, dtypes: []string{bf16},
		},
		{
			name: "gb300-sglang", gpu: "gb300", engine: optables.SGLang, dense: []string{bf16, "nvfp4"}, kvHeads: []int{2, 4, 8},
			latent: []int{16, 32, 64}, product: 16, experts: []int{7168, 2048, 8, 384}, dtypes: []string{"nvfp4", bf16}, gpus: []int{2, 4},
		},
		{
			name: "b200-trtllm", gpu: "b200", engine: optables.TRTLLM, dense: []string{"fp8_block"}, kvHeads: []int{1}, latent: []int{16}, product: 16,
			experts: []int{7168, 2048, 8, 256}, dtypes: []string{"fp8_block", "fp8"}, gpus: []int{8},
		},
	}
}

// keeps reports whether a curve belongs to the extract.
func (x *extract) keeps(c optables.Curve) bool {
	switch c.Table {
	case "gemm":
		return slices.Contains(x.dense, c.Texts[0])
	case "context_attention", "generation_attention": // head size, key-value heads, window, heads
		return c.Texts[0] == bf16 && c.Values[0] == 128 && slices.Contains(x.kvHeads, c.Values[1]) && c.Values[2] == 0
	case "context_mla", "generation_mla":
		return slices.Contains(x.latent, c.Values[0])
	case "mla_context_module", "mla_generation_module":
		return slices.Contains(x.latent, c.Values[0]) && slices.Contains(x.dtypes, c.Texts[2])
	case "mla_bmm":
		return c.Values[0] == x.product
	case "moe":
		return slices.Contains(x.dtypes, c.Texts[1]) && slices.Equal(c.Values[:4], x.experts)
	case "custom_allreduce":
		return slices.Contains(x.gpus, c.Values[0])
	}
	return false
}

// writeExtracts writes the extracts for the tests, from the rows of each engine.
func writeExtracts(from, dir string) error {
	for _, x := range listExtracts() {
		t, err := optables.ReadOwn(from, x.gpu, x.engine)
		if err != nil {
			return err
		}
		file, err := t.Select(x.keeps).Encode(nil)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, x.name+optables.Extension), file, 0o644); err != nil {
			return err
		}
	}
	return nil
}
