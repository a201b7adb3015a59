package engineargs

import (
	"strings"
	"testing"
)

// TestHostPages checks the number of pages of host memory. The number follows from a multiple of the token pool, or
// from a size as whole pages plus one.
func TestHostPages(t *testing.T) {
	for text, want := range map[string]int{
		`{}`:                          0,
		`{"kv_bytes_per_token":1000}`: 0,
		`{"sglang":{"enable_hierarchical_cache":true}}`:                                                                  0,
		`{"kv_bytes_per_token":1000,"sglang":{"enable_hierarchical_cache":true}}`:                                        201,
		`{"kv_bytes_per_token":1000,"sglang":{"enable_hierarchical_cache":true,"hicache_ratio":0.333}}`:                  34,
		`{"kv_bytes_per_token":1000,"sglang":{"enable_hierarchical_cache":true,"hicache_ratio":3,"hicache_size":0.001}}`: 63,
	} {
		a, err := Parse([]byte(`{"engine_type":"sglang","num_gpu_blocks":100,"block_size":16,`+text[1:]), Options{})
		if text == `{}` {
			a, err = Parse([]byte(`{"engine_type":"sglang"}`), Options{})
		}
		if err != nil || a.HostPages() != want {
			t.Errorf("%s: %d pages of host memory, %v; want %d", text, a.HostPages(), err, want)
		}
	}
}

// TestNoHiCacheOfRanks checks that ranks in lockstep have no host memory.
func TestNoHiCacheOfRanks(t *testing.T) {
	_, err := Parse([]byte(`{"engine_type":"sglang","dp_size":2,"sglang":{"enable_hierarchical_cache":true}}`), Options{})
	if err == nil || !strings.Contains(err.Error(), "ranks in lockstep") {
		t.Errorf("%v, want it refused", err)
	}
}

// TestNoIntervalOfRanks checks that ranks in lockstep do not support prefill_decode_interval, which SGLang counts
// over all ranks.
func TestNoIntervalOfRanks(t *testing.T) {
	for ranks, refused := range map[string]bool{"1": false, "2": true} {
		_, err := Parse([]byte(`{"engine_type":"sglang","dp_size":`+ranks+`,"sglang":{"prefill_decode_interval":2}}`), Options{})
		if refused != (err != nil && strings.Contains(err.Error(), "sglang.prefill_decode_interval")) {
			t.Errorf("%s ranks: %v, want it refused: %v", ranks, err, refused)
		}
	}
}

// TestStorage checks that storage requires host memory with a write-through policy, and parses its numbers.
func TestStorage(t *testing.T) {
	const on = `"hicache_storage_backend":"file","hicache_storage_prefetch_retry_max_attempts":0`
	for text, want := range map[string]string{
		`{` + on + `}`: "requires sglang.enable_hierarchical_cache",
		`{"enable_hierarchical_cache":true,"hicache_write_policy":"write_back",` + on + `}`:                             "write_through or write_through_selective",
		`{"enable_hierarchical_cache":true,"hicache_storage_backend_extra_config":{"prefetch_threshold":0},` + on + `}`: "at least 1",
	} {
		_, err := Parse([]byte(`{"engine_type":"sglang","sglang":`+text+`}`), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	a, err := Parse([]byte(`{"engine_type":"sglang","sglang":{"enable_hierarchical_cache":true,"hicache_storage_prefetch_policy":"best_effort",`+
		`"hicache_storage_backend_extra_config":{"prefetch_threshold":7,"prefetch_timeout_base":2,"prefetch_timeout_per_ki_token":3},`+on+`}}`), Options{})
	if want := (StorageArgs{Backend: "file", Policy: "best_effort", Threshold: 7, Timeout: 2, TimeoutPerKiToken: 3}); err != nil || a.SGLang.HiCache.Storage != want {
		t.Errorf("%+v, %v; want %+v", a.SGLang.HiCache.Storage, err, want)
	}
}
