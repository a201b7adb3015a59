package wheel

import (
	"errors"
	"fmt"
	"io/fs"
)

// System is the data sheet of a GPU system. Rates are in bytes/s and FLOP/s, times in seconds.
type System struct {
	GPU struct {
		Bandwidth float64 `yaml:"mem_bw"`
		Scale     float64 `yaml:"mem_bw_empirical_scaling_factor"`
		Latency   float64 `yaml:"mem_empirical_constant_latency"`
		BF16      float64 `yaml:"bfloat16_tc_flops"`
		FP8       float64 `yaml:"fp8_tc_flops"`
		FP4       float64 `yaml:"fp4_tc_flops"`
		SM        int     `yaml:"sm_version"`
	} `yaml:"gpu"`
	Node struct {
		GPUs      int     `yaml:"num_gpus_per_node"`
		Rack      int     `yaml:"num_gpus_per_rack"`
		Intra     float64 `yaml:"intra_node_bw"`
		Inter     float64 `yaml:"inter_node_bw"`
		InterRack float64 `yaml:"inter_rack_bw"`
		P2P       float64 `yaml:"p2p_latency"`
	} `yaml:"node"`
	Misc struct {
		NCCL string `yaml:"nccl_version"`
	} `yaml:"misc"`
}

// System returns the data sheet of a system, for example h100_sxm.
func (w *Wheel) System(name string) (*System, error) {
	s := &System{}
	if err := w.readYAML(name+".yaml", s); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s.yaml is missing: %w", name, err)
		}
		return nil, err
	}
	if !(s.GPU.Bandwidth > 0) || !(s.GPU.BF16 > 0) || s.Node.GPUs < 1 || !(s.Node.Intra > 0) || !(s.Node.Inter > 0) {
		return nil, fmt.Errorf("%s.yaml: mem_bw, bfloat16_tc_flops, num_gpus_per_node, intra_node_bw and inter_node_bw must be > 0", name)
	}
	return s, nil
}
