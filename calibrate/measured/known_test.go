package measured

import (
	"os"
	"path/filepath"
	"testing"
)

// TestKnownSettings checks that known settings of a server are used only if the file has none.
func TestKnownSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.json")
	known := map[string]any{
		"device_name": "h100", "model": "qwen3-14b", "tensor_parallel_size": 2.0, "num_gpu_blocks": 9000.0,
		"block_size": 32.0, "max_num_seqs": 64.0, "max_num_batched_tokens": 4096.0, "enable_prefix_caching": false,
	}
	for text, want := range map[string]struct {
		gpu                string
		tp, seqs, blockLen int
	}{
		`{}`:   {"h100", 2, 64, 32},
		`null`: {"h100", 2, 64, 32},
		`{"hardware": {"device_name": "L40S"}, "resolved_config": {"max_num_seqs": 128, "tensor_parallel_size": 1}}`: {"L40S", 1, 128, 32},
		`{"hardware": {"gpus": 8}, "engine_kwargs": {"block_size": 64}}`:                                             {"h100", 2, 64, 64},
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := readSettings(path, []map[string]any{known})
		if err != nil || s.GPU != want.gpu || s.TensorParallel != want.tp || s.MaxSeqs != want.seqs || s.BlockTokens != want.blockLen || s.PrefixCaching || s.Blocks != 9000 || s.Model != "qwen3-14b" {
			t.Errorf("%s: %+v, %v", text, s, err)
		}
	}
}
