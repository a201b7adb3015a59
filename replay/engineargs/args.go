// Package engineargs has the arguments of a simulated engine. The package parses arguments from the JSON object of
// the reference.
//
// Read args.go, then parse.go and fields.go.
package engineargs

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/sglang"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/trtllm"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/sim"
)

// Engine is the kind of engine of a worker.
type Engine uint8

const (
	VLLM Engine = iota
	SGLang
	TRTLLM
)

func (e Engine) String() string {
	return [...]string{"vllm", "sglang", "trtllm"}[e]
}

// Unlimited is the value of Args.MaxSeqs and Args.MaxBatchedTokens for no limit.
const Unlimited = 0

// Args are the arguments of the engines of one pool. Parse sets every default; Default returns the defaults.
//
// Missing arguments without a default are zero.
type Args struct {
	Engine         Engine
	Role           scheduler.Role
	Blocks         int // KV blocks of a worker's pool, ≥ 1; default 16384
	BlockTokens    int // tokens per KV block; default 64 for vLLM, 1 for SGLang, 32 for TensorRT-LLM
	MaxLength      int // max_model_len, the maximum sequence length in tokens, or SGLang's context_length; 0: no limit
	vllm.Settings  `record:"inline"`
	PrefixCaching  bool    // reuse cached blocks across requests; default true
	Speedup        float64 // divides all pass times; default 1; 0: no change
	DecodeSpeedup  float64 // also divides decode times; default 1; 0: neither ratio divides them
	DPSize         int     // data-parallel ranks of a worker, in lockstep; default 1, which the reference requires
	StartupSeconds float64 // startup time of a worker added later; 0: none

	KVBytesPerToken     int     // KV cache bytes per token; 0: unknown, transfers take no time
	TransferGBPerSecond float64 // link from prefill to decode, 10^9 bytes per second; 0: transfers take no time
	TransferLatencyMs   float64 // of a transfer from prefill to decode, for any size; 0: none

	// QueuePolicy is the order of held requests. A QueuePolicy other than "" overrides the order of the router's
	// policy.
	QueuePolicy string
	PassTimes   timing.Source `record:"profile_path"`
	AIC         AIC
	G2          G2
	SGLang      SGLangArgs
	TRTLLM      trtllm.Settings `record:"omitzero"` // for TensorRT-LLM engines only
	Speculative *Speculative    // nil: none

	// The following arguments have no effect on a replay on the logical clock.
	LocalIndexer  bool
	Reasoning     *Reasoning // nil: none
	BootstrapPort uint16
	KVEventsPort  uint16 // zmq_kv_events_port
	ReplayPort    uint16 // zmq_replay_port
}

// SGLangArgs are for SGLang engines only.
type SGLangArgs = sglang.Settings

// HiCacheArgs are the arguments of SGLang's hierarchical cache, and StorageArgs those of its storage.
type (
	HiCacheArgs = sglang.HiCacheSettings
	StorageArgs = sglang.StorageSettings
)

// AIC are the arguments of the external estimator of pass times.
type AIC struct {
	Backend, System, BackendVersion, ModelPath  string
	TPSize, MoETPSize, MoEEPSize, AttentionSize int // 0: not given
}

// G2 is the settings of KV offload to host memory for vLLM engines. Other engines use only the bandwidths of G2.
// There is no offload if Blocks or Args.KVBytesPerToken is 0. The reference's released build ignores the settings.
type G2 struct {
	Blocks         int     // KV blocks in host memory; 0: no offload, or GiB of unknown size
	GiB            float64 `record:"omitzero"` // kv_offload_gib, from which Parse computes Blocks; 0: not given
	Connector      string  `record:"omitzero"` // kv_offload_connector; "" with offload: OffloadingConnector
	BatchBlocks    int     // blocks per transfer to the host, ≥ 1; default 32
	ToHostGBPerSec float64 // 10^9 bytes per second; default 14; 0: transfers take no time
	ToGPUGBPerSec  float64 // 10^9 bytes per second; default 14; 0: transfers take no time
	// ToStorageGBPerSec and FromStorageGBPerSec are the bandwidths between host memory and storage, for SGLang with a
	// storage backend; default 5.
	ToStorageGBPerSec, FromStorageGBPerSec float64
}

// SimpleCPU is the value of kv_offload_connector for SimpleCPUOffloadConnector.
const SimpleCPU = "simple"

// Asked reports whether host memory is configured.
func (g *G2) Asked() bool { return g.Blocks > 0 || g.GiB > 0 }

// Key returns the key that configures host memory, and its value.
func (g *G2) Key() (key, value string) {
	if g.GiB > 0 {
		return "kv_offload_gib", strconv.FormatFloat(g.GiB, 'g', -1, 64)
	}
	return "num_g2_blocks", strconv.Itoa(g.Blocks)
}

// Reasoning configures answers that begin with thinking.
type Reasoning struct {
	StartToken, EndToken uint32
	Ratio                float64 // share of thinking in the answer
}

// Default returns the arguments of an empty object.
func Default() Args {
	a, _ := Parse(nil, Options{}) // an empty object has no error
	return a
}

// Transfer returns the link from a prefill worker to decode workers.
func (a *Args) Transfer() scheduler.Transfer {
	return scheduler.Transfer{GBPerSecond: a.TransferGBPerSecond, BytesPerToken: a.KVBytesPerToken, Latency: sim.Time(a.TransferLatencyMs)}
}

// Warnings returns warnings about arguments with an unexpected effect.
func (a *Args) Warnings() []string {
	var w []string
	if a.Uncertain != "" {
		w = append(w, "scheduler_profile: "+a.Uncertain)
	}
	if a.PrefillInterval > 1 && !a.Rules.OwnInterval && !a.Rules.Reference() {
		w = append(w, fmt.Sprintf("prefill_schedule_interval is %d and has no effect with the rules of %s: an engine alone holds it since vllm-0.33", a.PrefillInterval, cmp.Or(a.Profile, "scheduler_rules")))
	}
	if s := a.SGLang.Policy; a.Engine == SGLang && !slices.Contains(sglang.PolicyNames(), s) {
		w = append(w, fmt.Sprintf("sglang.schedule_policy is %q, which counts as fifo: expected fifo, fcfs, lpm, lof, hrrn, shortest-prefill-first or random", s))
	}
	if a.G2.Asked() && a.KVBytesPerToken == 0 {
		key, value := a.G2.Key()
		w = append(w, fmt.Sprintf("%s is %s without kv_bytes_per_token: nothing is offloaded", key, value))
	}
	if n := a.TRTLLM.HostBytes; n > 0 && a.KVBytesPerToken == 0 {
		w = append(w, fmt.Sprintf("trtllm.host_cache_size is %d without kv_bytes_per_token: there is no host memory", n))
	}
	if a.SGLang.HiCache.On && a.Engine == SGLang && a.KVBytesPerToken == 0 {
		w = append(w, "sglang.enable_hierarchical_cache without kv_bytes_per_token: there is no host memory")
	}
	return w
}
