package engineargs

import (
	"cmp"
	"strconv"

	"github.com/replay-llm/replay/scheduler/sglang"
)

// HiCacheArgs are those of SGLang's hierarchical cache: host memory behind the token pool.
// There is none without Args.KVBytesPerToken.
type HiCacheArgs struct {
	On      bool    // enable_hierarchical_cache; default false
	Ratio   float64 // hicache_ratio: host memory over the token pool, > 0; 0: 2
	SizeGB  float64 // hicache_size: of host memory, 10^9 bytes, in place of Ratio; 0: not given
	Policy  string  // hicache_write_policy: when pages are copied to the host; default write_through, also ""
	Layers  int     // hicache_layers of the model, in which what is loaded arrives; 0: the model's
	Storage StorageArgs
}

// AssumedLayers is what a model has whose layers nobody knows.
const AssumedLayers = 32

// readHiCache reads the keys of the hierarchical cache in the object sglang.
func (r *reader) readHiCache(h *HiCacheArgs) {
	r.flag("enable_hierarchical_cache", &h.On)
	if r.number("hicache_ratio", &h.Ratio) && !(h.Ratio > 0) {
		r.fail("hicache_ratio", string(r.values["hicache_ratio"]), "above 0")
	}
	r.ratio("hicache_size", &h.SizeGB)
	r.count("hicache_layers", &h.Layers)
	h.Policy = r.choice("hicache_write_policy", sglang.WritePolicies()...)
	r.readStorage(&h.Storage)
}

// checkHiCache refuses a hierarchical cache where there can be none.
func (r *reader) checkHiCache(a *Args) {
	if h := &a.SGLang.HiCache; h.On && a.Engine == SGLang && a.DPSize > 1 {
		r.fail("sglang.enable_hierarchical_cache", "true", "dp_size 1: host memory behind ranks in lockstep is not simulated")
	}
	r.checkStorage(a)
}

// HostPages returns the pages of host memory behind the token pool.
func (a *Args) HostPages() int {
	h := &a.SGLang.HiCache
	switch {
	case !h.On || a.KVBytesPerToken == 0:
		return 0
	case h.SizeGB > 0:
		return int(min(h.SizeGB*1e9/float64(a.KVBytesPerToken), 1<<40))/a.BlockTokens + 1
	}
	return sglang.HostPages(a.Blocks, a.BlockTokens, cmp.Or(h.Ratio, 2))
}

// HostBlocks returns the blocks of host memory behind the KV blocks of a rank.
func (a *Args) HostBlocks() int {
	switch {
	case a.Engine == SGLang:
		return a.HostPages()
	case a.KVBytesPerToken == 0:
		return 0
	}
	return a.G2.Blocks
}

// HostKey returns the key by which host memory behind the KV blocks was asked for, and its value; "" when
// it was not.
func (a *Args) HostKey() (key, value string) {
	switch {
	case a.Engine == SGLang && a.SGLang.HiCache.On:
		return "sglang.enable_hierarchical_cache", "true"
	case a.Engine != SGLang && a.G2.Blocks > 0:
		return "num_g2_blocks", strconv.Itoa(a.G2.Blocks)
	}
	return "", ""
}
