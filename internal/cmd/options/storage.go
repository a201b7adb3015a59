package options

import (
	"github.com/replay-llm/replay/scheduler/sglang"
)

// storageSettings returns the flags of storage behind the host memory of SGLang's engines.
func storageSettings() []Setting {
	return []Setting{
		{Name: "hicache-storage-backend", Key: "sglang.hicache_storage_backend", kind: "name", preset: "none", Names: sglang.StorageBackends(), engine: "sglang", help: "sglang: storage behind host memory, by SGLang's `name`; all are simulated alike"},
		{Name: "hicache-storage-prefetch-policy", Key: "sglang.hicache_storage_prefetch_policy", kind: "name", preset: "timeout", Names: sglang.PrefetchPolicies(), engine: "sglang", help: "sglang: how long requests wait for storage: timeout, best_effort or wait_complete, by `name`"},
		{Name: "hicache-storage-prefetch-retry-max-attempts", Key: "sglang.hicache_storage_prefetch_retry_max_attempts", kind: "int", preset: "8", engine: "sglang", help: "sglang: `times` that a request asks storage again; want 0"},
		{Name: "hicache-storage-backend-extra-config", Key: "sglang.hicache_storage_backend_extra_config", kind: "object", preset: "{}", engine: "sglang", help: "sglang: `JSON` object of prefetch_threshold, prefetch_timeout_base and prefetch_timeout_per_ki_token"},
		{Name: "bandwidth-g2-to-g3-gbps", Key: "bandwidth_g2_to_g3_gbps", kind: "number", preset: "5", engine: "sglang", help: "sglang: `GB/s` from host memory to storage; 0: transfers take no time"},
		{Name: "bandwidth-g3-to-g2-gbps", Key: "bandwidth_g3_to_g2_gbps", kind: "number", preset: "5", engine: "sglang", help: "sglang: `GB/s` from storage to host memory; 0: transfers take no time"},
	}
}
