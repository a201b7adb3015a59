package sglang

import (
	"strconv"

	"github.com/replay-llm/replay/schema"
)

// HiCacheSettings are the arguments of the hierarchical cache: host memory behind the token pool. There is no host
// memory if the KV cache bytes per token are unknown.
type HiCacheSettings struct {
	On      bool    // enable_hierarchical_cache
	Ratio   float64 // hicache_ratio: size of host memory divided by size of the token pool, > 0; 0: 2
	SizeGB  float64 // hicache_size: size of host memory in 10^9 bytes, instead of Ratio; 0: not given
	Policy  string  // hicache_write_policy: when pages are copied to the host; "": write_through
	Layers  int     // hicache_layers: layers of the model, for loads layer by layer; 0: the model's
	Storage StorageSettings
}

// AssumedLayers is the number of layers for a model with an unknown number.
const AssumedLayers = 32

func (h *HiCacheSettings) declare(d *schema.Decl) {
	d.Bool(&h.On, schema.Row{
		Key: "enable_hierarchical_cache", Help: "host memory behind the KV cache (HiCache)", After: "radix-eviction-policy-config",
		Doc: schema.Doc{Text: "HiCache: host memory behind the KV cache, with `kv_bytes_per_token` and the bandwidths of KV offload (docs/hardware.md#kv-offload-to-host-memory)"},
	})
	d.NumberIn(&h.Ratio, func(f float64) bool { return f > 0 }, "above 0", schema.Row{
		Key: "hicache_ratio", Default: "2", Help: "host memory, as `factor` of the KV cache",
		Doc: schema.Doc{Unit: "-", Text: "host memory, as a factor of the KV cache"},
	})
	d.Ratio(&h.SizeGB, schema.Row{
		Key: "hicache_size", Default: "by --hicache-ratio", Help: "host memory in `GB`",
		Doc: schema.Doc{Unit: "10⁹ bytes", Default: "-", Text: "host memory, instead of the factor"},
	})
	d.Count(&h.Layers, schema.Row{
		Key: "hicache_layers", Default: "the model's, or 32", Help: "`layers` of the model, for loads from the host layer by layer", After: "hicache-write-policy",
		Doc: schema.Doc{Text: "layers of the model; each layer of a pass waits for its part of a load from the host"},
	})
	h.Policy = d.Name(schema.Row{
		Key: "hicache_write_policy", Default: "write_through", Help: "when pages are copied to the host: write_through, write_through_selective or write_back, by `name`", After: "hicache-size", Names: writePolicies(),
		Doc: schema.Doc{Text: "when pages are copied to the host: write_through, when they are cached; write_through_selective, the second time; write_back, when they are evicted"},
	})
	h.Storage.declare(d)
}

// StorageSettings are the arguments of storage behind the host memory of the hierarchical cache.
type StorageSettings struct {
	Backend           string  // hicache_storage_backend, one of SGLang's names; "": no storage
	Policy            string  // hicache_storage_prefetch_policy; "": timeout
	Threshold         int     // prefetch_threshold: minimum number of fetched tokens; default 256
	Timeout           float64 // prefetch_timeout_base, s; default 1
	TimeoutPerKiToken float64 // prefetch_timeout_per_ki_token, s; default 0.25
}

// storageBackends returns the names of storage backends, which all have the same simulation.
func storageBackends() []string {
	return []string{"file", "sim", "mooncake", "npu_memcache", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm", "mori", "shm", "tensorcast", "seaweedfs"}
}

// usualRetries is the default of hicache_storage_prefetch_retry_max_attempts.
const usualRetries = 8

func (s *StorageSettings) declare(d *schema.Decl) {
	s.Backend = d.Name(schema.Row{
		Key: "hicache_storage_backend", Default: "none", Help: "storage behind host memory, by SGLang's `name`; all are simulated alike", After: "hicache-layers", Names: storageBackends(),
		Doc: schema.Doc{Text: "storage behind host memory, by a name of SGLang's (file, mooncake, hf3fs, nixl, ...), which are simulated alike; not with write_back"},
	})
	s.Policy = d.Name(schema.Row{
		Key: "hicache_storage_prefetch_policy", Default: "timeout", Help: "how long requests wait for storage: timeout, best_effort or wait_complete, by `name`", Names: prefetchPolicies(),
		Doc: schema.Doc{Text: "how long requests wait for storage: timeout; best_effort, not at all; wait_complete"},
	})
	retries := usualRetries
	d.Size(&retries, schema.Row{
		Key: "hicache_storage_prefetch_retry_max_attempts", Default: "8", Help: "`times` that a request asks storage again, must be 0",
		Doc: schema.Doc{Text: "repeated queries of storage by a request: 0 with a backend; other values are not simulated"},
	})
	if s.Backend != "" && retries > 0 {
		d.Fail("hicache_storage_prefetch_retry_max_attempts", strconv.Itoa(retries), "0 with hicache_storage_backend: that requests ask storage again is not simulated")
	}
	if s.Backend != "" {
		s.Threshold, s.Timeout, s.TimeoutPerKiToken = 256, 1, 0.25
	}
	const extra = "hicache_storage_backend_extra_config"
	d.Members(schema.Row{
		Key: "hicache_storage_backend_extra_config", Default: "{}", Help: "`JSON` object of prefetch_threshold, prefetch_timeout_base and prefetch_timeout_per_ki_token",
		Doc: schema.Doc{Default: "-", Text: "an object of `prefetch_threshold` (256 tokens), `prefetch_timeout_base` (1 s) and `prefetch_timeout_per_ki_token` (0.25 s)"},
	}, func(m *schema.Decl) {
		m.Place(extra + ".")
		m.Count(&s.Threshold, schema.Row{Key: "prefetch_threshold"})
		m.Ratio(&s.Timeout, schema.Row{Key: "prefetch_timeout_base"})
		m.Ratio(&s.TimeoutPerKiToken, schema.Row{Key: "prefetch_timeout_per_ki_token"})
	})
	if s.Backend == "" {
		for _, key := range []string{"hicache_storage_prefetch_policy", extra} {
			if d.Given(key) {
				d.Require(key, "hicache_storage_backend")
			}
		}
	}
}
