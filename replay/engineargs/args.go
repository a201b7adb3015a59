// Package engineargs holds the arguments of a simulated engine and reads them
// from the JSON object the reference takes.
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

// Engine is the kind of engine a worker runs.
type Engine uint8

const (
	VLLM Engine = iota
	SGLang
	TRTLLM
)

func (e Engine) String() string {
	return [...]string{"vllm", "sglang", "trtllm"}[e]
}

// Unlimited lifts Args.MaxSeqs and Args.MaxBatchedTokens.
const Unlimited = 0

// Args are the arguments of the engines of one pool. Parse fills in every
// default; Default is what an empty object gives.
//
// Arguments that are absent and have no default are zero.
type Args struct {
	Engine         Engine
	Role           scheduler.Role
	Blocks         int // KV blocks of a worker's pool, ≥ 1; default 16384
	BlockTokens    int // tokens per KV block; default 64 for vLLM, 1 for SGLang, 32 for TensorRT-LLM
	MaxLength      int // max_model_len, tokens of the longest sequence, or SGLang's context_length; 0: no limit
	vllm.Settings  `record:"inline"`
	PrefixCaching  bool    // reuse cached blocks across requests; default true
	Speedup        float64 // divides all pass times; default 1; 0 leaves them
	DecodeSpeedup  float64 // divides decode times once more; default 1; 0 leaves decode unscaled
	DPSize         int     // data-parallel ranks of a worker, in lockstep; default 1, the only size of the reference
	StartupSeconds float64 // how long a worker added later takes to start; 0: none

	KVBytesPerToken     int     // KV cache bytes per token; 0: unknown, a handoff takes no time
	TransferGBPerSecond float64 // link from prefill to decode, 10^9 bytes per second; 0: a handoff takes no time
	TransferLatencyMs   float64 // of a transfer from prefill to decode, for any size; 0: none

	QueuePolicy string        // "fcfs", "lcfs", "wspt", "priority", "wfq" or "edf" replaces the router's policy; "": the router's own
	PassTimes   timing.Source `record:"profile_path"`
	AIC         AIC
	G2          G2
	SGLang      SGLangArgs
	TRTLLM      trtllm.Settings `record:"omitzero"` // read by TensorRT-LLM engines only
	Speculative *Speculative    // nil: none

	// Of no effect on a replay in logical time.
	LocalIndexer  bool
	Reasoning     *Reasoning // nil: none
	BootstrapPort uint16
	KVEventsPort  uint16 // zmq_kv_events_port
	ReplayPort    uint16 // zmq_replay_port
}

// SGLangArgs are read by SGLang engines only.
type SGLangArgs = sglang.Settings

// HiCacheArgs are the arguments of SGLang's hierarchical cache, and StorageArgs those of the storage behind it.
type (
	HiCacheArgs = sglang.HiCacheSettings
	StorageArgs = sglang.StorageSettings
)

// AIC names the external estimator of pass times.
type AIC struct {
	Backend, System, BackendVersion, ModelPath  string
	TPSize, MoETPSize, MoEEPSize, AttentionSize int // 0: not given
}

// G2 are the settings of KV offload to host memory, for vLLM engines; other engines have its bandwidths alone. There is none when
// Blocks or Args.KVBytesPerToken is 0. The reference's released build ignores them.
type G2 struct {
	Blocks         int     // KV blocks in host memory; 0: no offload, or GiB of unknown size
	GiB            float64 `record:"omitzero"` // kv_offload_gib, of which Parse computes Blocks; 0: not given
	Connector      string  `record:"omitzero"` // kv_offload_connector; "" and offloading: OffloadingConnector
	BatchBlocks    int     // blocks per transfer to the host, ≥ 1; default 32
	ToHostGBPerSec float64 // 10^9 bytes per second; default 14; 0: transfers take no time
	ToGPUGBPerSec  float64 // 10^9 bytes per second; default 14; 0: transfers take no time
	// Between host memory and storage, SGLang's alone, with a backend of storage; default 5.
	ToStorageGBPerSec, FromStorageGBPerSec float64
}

// SimpleCPU is the value of kv_offload_connector for SimpleCPUOffloadConnector.
const SimpleCPU = "simple"

// Asked reports whether host memory is asked for.
func (g *G2) Asked() bool { return g.Blocks > 0 || g.GiB > 0 }

// Key returns the key by which host memory is asked for, and its value.
func (g *G2) Key() (key, value string) {
	if g.GiB > 0 {
		return "kv_offload_gib", strconv.FormatFloat(g.GiB, 'g', -1, 64)
	}
	return "num_g2_blocks", strconv.Itoa(g.Blocks)
}

// Reasoning shapes answers that think first.
type Reasoning struct {
	StartToken, EndToken uint32
	Ratio                float64 // share of the answer spent thinking
}

// Default returns the meaning of an empty object.
func Default() Args {
	a, _ := Parse(nil, Options{}) // an empty object is right
	return a
}

// Transfer returns the link over which a prefill worker hands a KV cache over.
func (a *Args) Transfer() scheduler.Transfer {
	return scheduler.Transfer{GBPerSecond: a.TransferGBPerSecond, BytesPerToken: a.KVBytesPerToken, Latency: sim.Time(a.TransferLatencyMs)}
}

// Warnings names arguments that were read and do not mean what they seem to.
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
