// Package hardware contains public data of GPUs and models. Package hardware computes the memory of a model's weights
// and KV cache, and the remaining memory of a GPU for KV blocks.
//
// A Fit is a model on a GPU with a parallelism and a precision. Budget reports how the memory of a GPU is used. A
// model that does not fit gives a *TooLargeError with the budget. Package timing computes pass times from the same
// values.
package hardware

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

// GiB is 2^30 bytes.
const GiB = 1 << 30

// GPU describes an accelerator by its data sheet. Rates are for dense products: half of the rates with sparsity in a
// data sheet.
type GPU struct {
	Name      string  `json:"name"`
	MemoryGiB float64 `json:"memory_gib"`     // total memory that an engine sees, less than the size in the data sheet
	Bandwidth float64 `json:"bandwidth_gb_s"` // memory bandwidth, 1e9 bytes/s
	BF16      float64 `json:"bf16_tflops"`    // peak rate in 1e12 FLOP/s
	FP8       float64 `json:"fp8_tflops"`     // 0: products run in bfloat16
	FP4       float64 `json:"fp4_tflops"`     // 0: products run in FP8, or bfloat16
	Link      float64 `json:"link_gb_s"`      // bandwidth to the other GPUs of the worker, one direction, 1e9 bytes/s
	PCIe      bool    `json:"pcie"`           // Link is PCIe: each collective takes longer
	PerNode   int     `json:"gpus_per_node"`  // number of GPUs that Link connects; 0: 8
	NodeLink  float64 `json:"node_link_gb_s"` // bandwidth of a GPU to GPUs of other nodes, one direction, 1e9 bytes/s; 0: 50, or 12.5 with PCIe
	Price     float64 `json:"usd_per_hour"`   // on-demand price, a rough default; 0: unknown
	Source    string  `json:"source"`
}

// GPUs returns the GPUs with known data sheets, by maker and age.
func GPUs() []GPU {
	const nv, amd, tpu = "NVIDIA data sheet, ", "AMD data sheet, ", "Google Cloud TPU documentation, "
	return []GPU{
		{"v100", 31.73, 900, 125, 0, 0, 150, false, 8, 50, 0.8, nv + "V100 SXM2 32GB; float16"},
		{"a30", 23.50, 933, 165, 0, 0, 100, false, 8, 50, 0.7, nv + "A30"},
		{"a10g", 22.06, 600, 70, 0, 0, 16, true, 8, 12.5, 1.0, nv + "A10G"},
		{"a100-40gb", 39.39, 1555, 312, 0, 0, 300, false, 8, 50, 1.4, nv + "A100 SXM 40GB"},
		{"a100", 79.15, 2039, 312, 0, 0, 300, false, 8, 50, 1.8, nv + "A100 SXM 80GB"},
		{"l4", 22.03, 300, 121, 242, 0, 16, true, 8, 12.5, 0.7, nv + "L4"},
		{"l40", 44.40, 864, 181, 362, 0, 32, true, 8, 12.5, 1.0, nv + "L40"},
		{"l40s", 44.40, 864, 362, 733, 0, 32, true, 8, 12.5, 1.2, nv + "L40S"},
		{"rtx4090", 23.52, 1008, 165, 330, 0, 32, true, 8, 12.5, 0.5, nv + "RTX 4090; memory as reported"},
		{"rtx6000ada", 47.50, 960, 364, 728, 0, 32, true, 8, 12.5, 0.9, nv + "RTX 6000 Ada"},
		{"rtx5090", 31.36, 1792, 210, 419, 1676, 64, true, 8, 12.5, 0.8, nv + "RTX 5090"},
		{"rtxpro6000", 94.97, 1792, 500, 1000, 2000, 64, true, 8, 12.5, 1.8, nv + "RTX PRO 6000 Blackwell"},
		{"h20", 95.09, 4000, 148, 296, 0, 450, false, 8, 50, 1.5, nv + "H20"},
		{"h800", 79.19, 3350, 989, 1979, 0, 200, false, 8, 50, 2.0, nv + "H800 SXM"},
		{"h100-pcie", 79.19, 2000, 756, 1513, 0, 64, true, 8, 12.5, 2.2, nv + "H100 PCIe"},
		{"h100", 79.19, 3350, 989, 1979, 0, 450, false, 8, 50, 2.5, nv + "H100 SXM; memory as reported"},
		{"h200", 139.80, 4800, 989, 1979, 0, 450, false, 8, 50, 3.2, nv + "H200 SXM"},
		{"b200", 178.35, 8000, 2250, 4500, 9000, 900, false, 8, 50, 4.5, nv + "DGX B200, one of eight"},
		{"gb200", 184.00, 8000, 2500, 5000, 10000, 900, false, 72, 50, 5.0, nv + "GB200 NVL72, one of 72"},
		{"b300", 267.69, 8000, 2250, 4500, 13500, 900, false, 8, 50, 6.0, nv + "DGX B300, one of eight"},
		{"gb300", 276.00, 8000, 2500, 5000, 15000, 900, false, 72, 50, 6.5, nv + "GB300 NVL72, one of 72"},
		{"mi300x", 191.69, 5300, 1307, 2615, 0, 448, false, 8, 50, 2.2, amd + "Instinct MI300X"},
		{"mi325x", 255.69, 6000, 1307, 2615, 0, 448, false, 8, 50, 2.6, amd + "Instinct MI325X"},
		{"mi355x", 287.69, 8000, 2500, 5000, 10000, 538, false, 8, 50, 4.0, amd + "Instinct MI355X"},
		{"tpu-v5e", 15.75, 819, 197, 197, 0, 200, false, 256, 50, 1.2, tpu + "v5e, one chip"},
		{"tpu-v6e", 31.25, 1640, 918, 918, 0, 448, false, 256, 50, 2.7, tpu + "v6e, one chip"},
	}
}

// Memory returns the total memory in bytes that an engine sees.
func (g *GPU) Memory() float64 { return g.MemoryGiB * GiB }

// NodeSize returns the number of GPUs in a node, which Link connects.
func (g *GPU) NodeSize() int { return cmp.Or(g.PerNode, 8) }

// NodeGBPerSecond returns the bandwidth of a GPU to the GPUs of other nodes. The default is 50, which is 400 Gbit/s,
// and 12.5 for a GPU with PCIe as its link.
func (g *GPU) NodeGBPerSecond() float64 {
	if g.NodeLink == 0 && g.PCIe {
		return 12.5
	}
	return cmp.Or(g.NodeLink, 50)
}

// FLOPs returns the peak rate of products, in FLOP/s, for the given bits of weights and activations. The GPU first
// widens weights to the next type that it can multiply.
func (g *GPU) FLOPs(weightBits, activationBits float64) float64 {
	bits := max(weightBits, activationBits)
	switch {
	case bits <= 5 && g.FP4 > 0:
		return g.FP4 * 1e12
	case bits <= 8 && g.FP8 > 0:
		return g.FP8 * 1e12
	default:
		return g.BF16 * 1e12
	}
}

// ReadGPUs reads GPUs from a JSON file: a list of objects with the keys of GPU.
func ReadGPUs(path string) ([]GPU, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	var all []GPU
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("%s: %w, must be a list of GPUs", path, err)
	}
	for i, g := range all {
		switch {
		case g.Name == "":
			return nil, fmt.Errorf("%s: GPU %d has no name", path, i)
		case !(g.MemoryGiB > 0) || !(g.Bandwidth > 0) || !(g.BF16 > 0):
			return nil, fmt.Errorf("%s: %s: memory_gib, bandwidth_gb_s and bf16_tflops must be > 0", path, g.Name)
		case g.FP8 < 0 || g.FP4 < 0 || g.Link < 0 || g.Price < 0 || g.PerNode < 0 || g.NodeLink < 0:
			return nil, fmt.Errorf("%s: %s: a rate, link, price or gpus_per_node is negative, must be at least 0", path, g.Name)
		}
	}
	return all, nil
}
