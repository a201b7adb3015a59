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
		Key: "enable_hierarchical_cache", Help: "enable HiCache: host memory that extends the KV cache", After: "radix-eviction-policy-config",
		Doc: schema.Doc{Text: "HiCache: host memory that extends the KV cache. Requires `kv_bytes_per_token`; copies take the bandwidths of KV offload (docs/hardware.md#kv-offload-to-host-memory)"},
	})
	d.NumberIn(&h.Ratio, func(f float64) bool { return f > 0 }, "above 0", schema.Row{
		Key: "hicache_ratio", Default: "2", Help: "size of the host memory of HiCache, as a `factor` of the KV cache",
		Doc: schema.Doc{Unit: "-", Text: "size of the host memory of HiCache, as a factor of the KV cache"},
	})
	d.Ratio(&h.SizeGB, schema.Row{
		Key: "hicache_size", Default: "by --hicache-ratio", Help: "size of the host memory of HiCache in `GB`",
		Doc: schema.Doc{Unit: "10⁹ bytes", Default: "-", Text: "size of the host memory of HiCache, instead of `hicache_ratio`"},
	})
	d.Count(&h.Layers, schema.Row{
		Key: "hicache_layers", Default: "the model's, or 32", Help: "number of `layers` of the model; HiCache loads KV from host memory layer by layer", After: "hicache-write-policy",
		Doc: schema.Doc{Text: "number of layers of the model; each layer of a pass waits until its KV is loaded from host memory"},
	})
	h.Policy = d.Name(schema.Row{
		Key: "hicache_write_policy", Default: "write_through", Help: "when HiCache copies pages to host memory, by `name`: write_through, write_through_selective or write_back", After: "hicache-size", Names: writePolicies(),
		Doc: schema.Doc{Text: "when HiCache copies pages to host memory: write_through (when they are cached), write_through_selective (at the second hit) or write_back (when they are evicted)"},
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

// defaultRetries is the default of hicache_storage_prefetch_retry_max_attempts.
const defaultRetries = 8

func (s *StorageSettings) declare(d *schema.Decl) {
	s.Backend = d.Name(schema.Row{
		Key: "hicache_storage_backend", Default: "none", Help: "storage backend of HiCache, by its `name` in SGLang; all backends are simulated alike", After: "hicache-layers", Names: storageBackends(),
		Doc: schema.Doc{Text: "storage backend of HiCache, by its name in SGLang (file, mooncake, hf3fs, nixl, ...); all backends are simulated alike. Not with write_back"},
	})
	s.Policy = d.Name(schema.Row{
		Key: "hicache_storage_prefetch_policy", Default: "timeout", Help: "how long a request waits for pages from storage, by `name`: timeout, best_effort or wait_complete", Names: prefetchPolicies(),
		Doc: schema.Doc{Text: "how long a request waits for pages from storage: timeout (until a timeout), best_effort (not at all) or wait_complete (until all pages arrive)"},
	})
	retries := defaultRetries
	d.Size(&retries, schema.Row{
		Key: "hicache_storage_prefetch_retry_max_attempts", Default: "8", Help: "maximum number of `times` that a request queries storage again; must be 0 with a storage backend",
		Doc: schema.Doc{Text: "maximum number of times that a request queries storage again; must be 0 with a storage backend, as retries are not simulated"},
	})
	if s.Backend != "" && retries > 0 {
		d.Fail("hicache_storage_prefetch_retry_max_attempts", strconv.Itoa(retries), "0 with hicache_storage_backend: that requests ask storage again is not simulated")
	}
	if s.Backend != "" {
		s.Threshold, s.Timeout, s.TimeoutPerKiToken = 256, 1, 0.25
	}
	const extra = "hicache_storage_backend_extra_config"
	d.Members(schema.Row{
		Key: "hicache_storage_backend_extra_config", Default: "{}", Help: "parameters of the storage backend, a `JSON` object: prefetch_threshold, prefetch_timeout_base and prefetch_timeout_per_ki_token",
		Doc: schema.Doc{Default: "-", Text: "parameters of the storage backend, an object: `prefetch_threshold`, `prefetch_timeout_base` and `prefetch_timeout_per_ki_token`"},
	}, func(m *schema.Decl) {
		m.Place(extra + ".")
		m.Count(&s.Threshold, schema.Row{
			Key: "prefetch_threshold",
			Doc: schema.Doc{Unit: "tokens", Default: "256", Text: "minimum number of tokens in storage for which a request fetches pages"},
		})
		m.Ratio(&s.Timeout, schema.Row{
			Key: "prefetch_timeout_base",
			Doc: schema.Doc{Unit: "s", Default: "1", Text: "fixed part of the timeout of a fetch"},
		})
		m.Ratio(&s.TimeoutPerKiToken, schema.Row{
			Key: "prefetch_timeout_per_ki_token",
			Doc: schema.Doc{Unit: "s", Default: "0.25", Text: "part of the timeout of a fetch per 1024 tokens"},
		})
	})
	if s.Backend == "" {
		for _, key := range []string{"hicache_storage_prefetch_policy", extra} {
			if d.Given(key) {
				d.Require(key, "hicache_storage_backend")
			}
		}
	}
}
