package optables

import "strings"

// Sheet is the data sheet of a GPU system.
type Sheet struct {
	Bandwidth float64 `json:"mem_bw"`        // bytes/s
	BF16      float64 `json:"bf16_flops"`    // FLOP/s of dense products
	FP8       float64 `json:"fp8_flops"`     // 0: products use bfloat16
	FP4       float64 `json:"fp4_flops"`     // 0: products use FP8
	SM        int     `json:"sm"`            // NVIDIA architecture, for example 90
	NodeGPUs  int     `json:"gpus_per_node"` // GPUs connected by IntraNode
	RackGPUs  int     `json:"gpus_per_rack"` // GPUs connected by InterNode; 0: any number
	IntraNode float64 `json:"intra_node_bw"` // bytes/s of one GPU, one direction
	InterNode float64 `json:"inter_node_bw"`
	InterRack float64 `json:"inter_rack_bw"`
	P2P       float64 `json:"p2p_latency"` // s
	Scale     float64 `json:"mem_scale"`   // share of Bandwidth that small operators reach
	Latency   float64 `json:"mem_latency"` // time per small operator in s
}

// Small returns the time of an operator that only moves bytes, in ms: norms, activations, embedding, rotation, KV
// cache writes.
func (s *Sheet) Small(bytes float64) float64 {
	return (bytes/(s.Bandwidth*s.Scale) + s.Latency) * 1e3
}

// Hop returns the time to send activations to the next pipeline stage, in ms.
func (s *Sheet) Hop(bytes float64) float64 { return (bytes/s.InterNode + s.P2P) * 1e3 }

// bandwidthOver returns the bandwidth of one GPU within a group of GPUs, one direction, in bytes/s.
func (s *Sheet) bandwidthOver(gpus int) float64 {
	switch {
	case gpus <= s.NodeGPUs:
		return s.IntraNode
	case s.RackGPUs > 0 && gpus > s.RackGPUs && s.InterRack > 0:
		return s.InterRack
	}
	return s.InterNode
}

// bytesOf returns the bytes per value of a type.
func bytesOf(dtype string) float64 {
	switch {
	case dtype == "nvfp4":
		return 0.5625
	case dtype == "int4_wo" || strings.Contains(dtype, "mxfp4"):
		return 0.5
	case dtype == "int8_wo" || strings.HasPrefix(dtype, "fp8"):
		return 1
	}
	return 2
}

// peak returns the peak rate of products of a type, in FLOP/s. A type that the GPU cannot multiply is widened to the
// next type.
func (s *Sheet) peak(dtype string) float64 {
	switch {
	case dtype == "nvfp4" && s.FP4 > 0:
		return s.FP4
	case (dtype == "nvfp4" || strings.HasPrefix(dtype, "fp8") || strings.HasPrefix(dtype, "w4a8")) && s.FP8 > 0:
		return s.FP8
	}
	return s.BF16
}

// bound returns the lower bound of the time of an operator, in ms: the larger of the times for its products and its
// bytes.
func (s *Sheet) bound(ops, peak, bytes float64) float64 {
	return max(ops/peak, bytes/s.Bandwidth) * 1e3
}

// Generation returns NVIDIA's name of the GPU's generation, or "" if it is not known here.
func (s *Sheet) Generation() string {
	switch s.SM {
	case 80:
		return "Ampere"
	case 89:
		return "Ada"
	case 90:
		return "Hopper"
	case 100, 103:
		return "Blackwell"
	case 120:
		return "Blackwell RTX"
	}
	return ""
}
