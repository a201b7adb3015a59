package engineargs

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
	"github.com/replay-llm/replay/schema"
)

// storageGBPerSec is the default bandwidth between host memory and storage.
const storageGBPerSec = 5

// checkHost rejects host memory, and its storage, if they are not supported. checkHost sets the default bandwidths of
// storage.
func (a *Args) checkHost(d *schema.Decl) {
	h := &a.SGLang.HiCache
	if a.G2.GiB > 0 && a.Engine == SGLang {
		d.FailRule("kv_offload_gib", d.Raw("kv_offload_gib"), "not supported with SGLang: use sglang.enable_hierarchical_cache and sglang.hicache_size")
	}
	if a.G2.Connector != "" && a.Engine == SGLang {
		d.Require("kv_offload_connector", "engine_type vllm")
	}
	if h.On && a.Engine == SGLang && a.DPSize > 1 {
		d.Fail("sglang.enable_hierarchical_cache", "true", "dp_size 1: host memory behind ranks in lockstep is not simulated")
	}
	for key, speed := range map[string]*float64{
		"bandwidth_g2_to_g3_gbps": &a.G2.ToStorageGBPerSec, "bandwidth_g3_to_g2_gbps": &a.G2.FromStorageGBPerSec,
	} {
		if !d.Has(key) && h.Storage.Backend != "" {
			*speed = storageGBPerSec
		}
	}
	switch {
	case a.Engine != SGLang || h.Storage.Backend == "":
	case !h.On:
		d.FailRule("sglang.hicache_storage_backend", strconv.Quote(h.Storage.Backend), "requires sglang.enable_hierarchical_cache")
	case h.Policy == "write_back":
		d.Fail("sglang.hicache_write_policy", `"write_back"`, "write_through or write_through_selective with hicache_storage_backend: pages that are copied at eviction were not held against SGLang")
	}
}

// checkOffload computes the blocks of host memory of vLLM engines, and rejects invalid sizes. Incomplete arguments
// may lack a scheduler_profile.
func (a *Args) checkOffload(incomplete bool) error {
	g := &a.G2
	if err := a.checkConnector(incomplete); err != nil {
		return err
	}
	if g.GiB == 0 {
		return nil
	}
	key, value := g.Key()
	if g.Blocks > 0 {
		return refuseValue(key, value, "none with num_g2_blocks")
	}
	if a.KVBytesPerToken == 0 {
		return nil // Warnings and the command line report this setting
	}
	blocks := g.GiB * (1 << 30) / float64(a.KVBytesPerToken) / float64(a.BlockTokens)
	if blocks < 1 || blocks > maxBlocks {
		return refuseValue(key, value, fmt.Sprintf("room for 1 to %d blocks of %d tokens of %d bytes", maxBlocks, a.BlockTokens, a.KVBytesPerToken))
	}
	g.Blocks = int(blocks)
	return nil
}

// checkConnector rejects SimpleCPUOffloadConnector if it is not simulated. Incomplete arguments may lack a
// scheduler_profile.
func (a *Args) checkConnector(incomplete bool) error {
	const key = "kv_offload_connector"
	switch g := &a.G2; {
	case g.Connector != SimpleCPU:
		g.Connector = ""
	case a.Rules.Reference() && incomplete:
	case a.Rules.Reference():
		return requireOther(key, strconv.Quote(SimpleCPU), "a scheduler_profile of vLLM, as the reference has no connectors")
	case a.DPSize > 1:
		return requireOther(key, strconv.Quote(SimpleCPU), "dp_size 1: data-parallel ranks with this connector are not simulated")
	case a.Scheduling == vllm.ByPriority && !releases.RanksHost(a.Profile):
		return requireOther(key, strconv.Quote(SimpleCPU), "scheduling_policy fcfs or scheduler_profile vllm-0.33: priorities are not equal to those of earlier releases")
	}
	return nil
}

// HostPages returns the number of pages of host memory behind the token pool.
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

// HostBlocks returns the number of blocks of host memory behind the KV blocks of a rank.
func (a *Args) HostBlocks() int {
	switch {
	case a.Engine == SGLang:
		return a.HostPages()
	case a.KVBytesPerToken == 0:
		return 0
	case a.Engine == TRTLLM:
		return a.TRTLLM.HostBytes / (a.KVBytesPerToken * a.BlockTokens)
	}
	return a.G2.Blocks
}

// HostKey returns the key that configures host memory behind the KV blocks, and its value; "" without host memory.
func (a *Args) HostKey() (key, value string) {
	switch {
	case a.Engine == SGLang && a.SGLang.HiCache.On:
		return "sglang.enable_hierarchical_cache", "true"
	case a.Engine == TRTLLM && a.TRTLLM.HostBytes > 0:
		return "trtllm.host_cache_size", strconv.Itoa(a.TRTLLM.HostBytes)
	case a.Engine == VLLM && a.G2.Asked():
		return a.G2.Key()
	}
	return "", ""
}
