package engines

import (
	"fmt"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang/radix"
	"github.com/replay-llm/replay/sim"
)

// CheckCacheFiles rejects clusters with caches that no file can describe. A replay from an incomplete file would
// differ.
func (t *Topology) CheckCacheFiles() error {
	if t.Compat {
		return fmt.Errorf("the reference's caches begin empty, remove --compat")
	}
	for i := range t.Pools {
		for _, k := range t.Pools[i].Kinds() {
			stage := Stage{Topology: t, Pool: k.pool()}
			if why := stage.cacheFault(); why != "" {
				name := t.Pools[i].nameOf("engines")
				if k.Name != "" {
					name = k.Name + " engines"
				}
				return fmt.Errorf("%s have %s", name, why)
			}
		}
	}
	return nil
}

// cacheFault returns the reason why no file can describe the caches of the engines, "" if a file can.
func (s *Stage) cacheFault() string {
	a, host := &s.Engine, s.offloadConfig()
	drafts := draftsOf(a, 0)
	switch {
	case a.Engine == engineargs.TRTLLM:
		return "TensorRT-LLM's rules, must be vLLM's own or SGLang's"
	case a.Engine == engineargs.VLLM && a.Rules.Reference():
		return "the reference's rules are not supported, use vLLM's own, as with --scheduler-profile or --gpu, or SGLang"
	case !a.PrefixCaching:
		return "no prefix cache, requires one"
	case a.DPSize > 1:
		return "data-parallel ranks with a cache each, must be one rank"
	case a.Engine == engineargs.VLLM && host.Given(), a.Engine == engineargs.SGLang && s.hostMemory().Pages > 0:
		return "host memory behind their KV cache, must be none"
	case a.Engine == engineargs.VLLM && a.Windows.Given(), a.Engine == engineargs.SGLang && a.SGLang.PoolWindow() > 0:
		return "layers with sliding windows, which keep part of their KV cache, must be none"
	case a.Engine == engineargs.SGLang && a.SGLang.Eviction.Policy != radix.LRU:
		return "radix_eviction_policy is not lru, must be lru"
	case a.Engine == engineargs.SGLang && drafts != nil && drafts.Algorithm == scheduler.ByHead:
		return "drafts by heads that read hidden states have pages with other names, use another method or none"
	}
	return ""
}

// KeepsPrefixes reports whether the engines keep prefixes for later prompts. SGLang's decode workers do not.
func (s *Stage) KeepsPrefixes() bool {
	return s.Engine.Engine != engineargs.SGLang || s.Role != scheduler.Decode
}

// EngineOf returns the engine of a worker.
func (s *Stage) EngineOf(id sim.WorkerID) *engineargs.Args { return &s.at(id).Engine }
