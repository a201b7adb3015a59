package engineargs

import (
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler/sglang"
)

// StorageArgs are those of storage behind the host memory of SGLang's hierarchical cache.
type StorageArgs struct {
	Backend           string  // hicache_storage_backend, a name of SGLang's; "": no storage
	Policy            string  // hicache_storage_prefetch_policy; default timeout, also ""
	Threshold         int     // prefetch_threshold: tokens that are fetched at least; default 256
	Timeout           float64 // prefetch_timeout_base, s; default 1
	TimeoutPerKiToken float64 // prefetch_timeout_per_ki_token, s; default 0.25
}

// StorageBackends returns the names of SGLang's, which are simulated alike.
func StorageBackends() []string {
	return []string{"file", "sim", "mooncake", "npu_memcache", "hf3fs", "nixl", "aibrix", "dynamic", "eic", "simm", "mori", "shm", "tensorcast", "seaweedfs"}
}

// retriesOfSGLang is hicache_storage_prefetch_retry_max_attempts where it is not given.
const retriesOfSGLang = 8

// readStorage reads the keys of storage in the object sglang.
func (r *reader) readStorage(s *StorageArgs) {
	s.Backend = r.choice("hicache_storage_backend", StorageBackends()...)
	s.Policy = r.choice("hicache_storage_prefetch_policy", sglang.PrefetchPolicies()...)
	retries := retriesOfSGLang
	r.size("hicache_storage_prefetch_retry_max_attempts", &retries)
	if s.Backend != "" && retries > 0 {
		r.fail("hicache_storage_prefetch_retry_max_attempts", strconv.Itoa(retries), "0 with hicache_storage_backend: that requests ask storage again is not simulated")
	}
	if s.Backend != "" {
		s.Threshold, s.Timeout, s.TimeoutPerKiToken = 256, 1, 0.25
	}
	m := r.openObject("hicache_storage_backend_extra_config")
	if m != nil {
		m.count("prefetch_threshold", &s.Threshold)
		m.ratio("prefetch_timeout_base", &s.Timeout)
		m.ratio("prefetch_timeout_per_ki_token", &s.TimeoutPerKiToken)
		if r.err == nil {
			r.err = m.err
		}
	}
	if s.Backend == "" {
		for _, key := range []string{"hicache_storage_prefetch_policy", "hicache_storage_backend_extra_config"} {
			r.refuseAlone(key)
		}
	}
}

// refuseAlone refuses a key about storage where there is none.
func (r *reader) refuseAlone(key string) {
	if value := r.values[key]; value != nil && string(value) != "null" {
		r.fail(key, excerpt.CutLine(value), "hicache_storage_backend with it")
	}
}

// storageGBPerSec is the bandwidth between host memory and storage where none is given.
const storageGBPerSec = 5

// checkStorage refuses storage where there can be none, and gives it the bandwidths that
// nobody gave.
func (r *reader) checkStorage(a *Args) {
	h := &a.SGLang.HiCache
	for key, speed := range map[string]*float64{
		"bandwidth_g2_to_g3_gbps": &a.G2.ToStorageGBPerSec, "bandwidth_g3_to_g2_gbps": &a.G2.FromStorageGBPerSec,
	} {
		if r.values[key] == nil && h.Storage.Backend != "" {
			*speed = storageGBPerSec
		}
	}
	switch {
	case a.Engine != SGLang || h.Storage.Backend == "":
	case !h.On:
		r.fail("sglang.hicache_storage_backend", strconv.Quote(h.Storage.Backend), "sglang.enable_hierarchical_cache with it")
	case h.Policy == "write_back":
		r.fail("sglang.hicache_write_policy", `"write_back"`, "write_through or write_through_selective with hicache_storage_backend: pages that are copied at eviction were not held against SGLang")
	}
}
