package engine

import (
	"cmp"
	"strings"

	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/scheduler"
)

// Mode is the part of requests that a worker serves.
type Mode string

// Values of Mode.
const (
	// Aggregated workers serve complete requests.
	Aggregated Mode = "agg"
	// Prefill workers compute the prompt and one token. The terminal of a prefill worker has the data for the decode
	// worker in DisaggregatedParams.
	Prefill Mode = "prefill"
	// Decode workers continue after the prefill, and refuse requests without a PrefillResult. Abort is called only
	// after the first token, so that a transfer of KV blocks does not lose its receiver.
	Decode Mode = "decode"
)

// ParseMode parses agg (or aggregated), prefill or decode, in any case.
func ParseMode(text string) (Mode, error) {
	switch m := Mode(strings.ToLower(strings.TrimSpace(text))); m {
	case "aggregated":
		return Aggregated, nil
	case Aggregated, Prefill, Decode:
		return m, nil
	}
	return "", fault.New(fault.BackendInvalidArgument, "disaggregation mode is %q, must be agg, prefill or decode", text)
}

// Role returns the scheduler's role for a worker in this mode.
func (m Mode) Role() scheduler.Role {
	switch m {
	case Prefill:
		return scheduler.Prefill
	case Decode:
		return scheduler.Decode
	}
	return scheduler.Aggregated
}

// EndpointType is a type of requests that a worker serves.
type EndpointType string

// Values of EndpointType.
const (
	Chat            EndpointType = "chat"
	Completions     EndpointType = "completions"
	Embedding       EndpointType = "embedding"
	Tensor          EndpointType = "tensor"
	PrefillEndpoint EndpointType = "prefill"
)

// parseEndpointTypes parses a comma-separated list of endpoint types.
func parseEndpointTypes(text string) ([]EndpointType, error) {
	var types []EndpointType
	for word := range strings.SplitSeq(text, ",") {
		t := EndpointType(strings.ToLower(strings.TrimSpace(word)))
		switch t {
		case "embeddings":
			t = Embedding
		case Chat, Completions, Embedding, Tensor, PrefillEndpoint:
		default:
			return nil, fault.New(fault.BackendInvalidArgument,
				"endpoint types are %q, must be a comma list of chat, completions, embedding, tensor, prefill", text)
		}
		types = append(types, t)
	}
	return types, nil
}

// ModelCard describes a worker and its model for callers.
type ModelCard struct {
	Name             string         `json:"name"`       // name in requests of users
	Model            string         `json:"model_name"` // the engine's name of the model
	ModelType        []EndpointType `json:"model_type"` // types of requests; only prefill on prefill workers
	WorkerType       Mode           `json:"worker_type"`
	Needs            []Mode         `json:"needs,omitempty"` // modes of the other workers that it requires
	ContextLength    int            `json:"context_length,omitempty"`
	KVCacheBlockSize int            `json:"kv_cache_block_size,omitempty"`
	RuntimeConfig    RuntimeConfig  `json:"runtime_config"`
}

// RuntimeConfig is the data of a worker for routers. Zero values are omitted.
type RuntimeConfig struct {
	TotalKVBlocks         int            `json:"total_kv_blocks,omitempty"`
	MaxSeqs               int            `json:"max_num_seqs,omitempty"`
	MaxBatchedTokens      int            `json:"max_num_batched_tokens,omitempty"`
	DataParallelSize      int            `json:"data_parallel_size"`
	DataParallelStartRank int            `json:"data_parallel_start_rank"`
	EnableLocalIndexer    bool           `json:"enable_local_indexer"`
	KVRouting             bool           `json:"kv_routing"` // the worker publishes KV events
	BootstrapHost         string         `json:"bootstrap_host,omitempty"`
	BootstrapPort         int            `json:"bootstrap_port,omitempty"`
	RuntimeData           map[string]any `json:"runtime_data,omitempty"`
	// Meeting has BootstrapHost and BootstrapPort under the keys of the published package.
	Meeting *Meeting `json:"disaggregated_endpoint,omitempty"`
}

// Meeting is the address at which decode workers connect to a prefill worker.
type Meeting struct {
	Host string `json:"bootstrap_host"`
	Port int    `json:"bootstrap_port"`
}

// newCard returns the card of a worker.
func newCard(c *WorkerConfig, types []EndpointType, e EngineConfig) ModelCard {
	card := ModelCard{
		Name: cmp.Or(c.ModelName, e.ServedModelName, e.Model), Model: e.Model,
		ModelType: types, WorkerType: c.Mode,
		ContextLength: e.ContextLength, KVCacheBlockSize: e.KVCacheBlockSize,
		RuntimeConfig: RuntimeConfig{
			TotalKVBlocks: e.TotalKVBlocks, MaxSeqs: e.MaxSeqs, MaxBatchedTokens: e.MaxBatchedTokens,
			DataParallelSize: max(1, e.DataParallelSize), DataParallelStartRank: e.DataParallelStartRank,
			EnableLocalIndexer: !c.NoLocalIndexer, KVRouting: !c.NoKVRouting && e.KVCacheBlockSize > 0,
			RuntimeData: e.RuntimeData,
		},
	}
	switch c.Mode {
	case Prefill:
		card.ModelType, card.Needs = []EndpointType{PrefillEndpoint}, []Mode{Decode}
		if e.BootstrapHost != "" && e.BootstrapPort != 0 {
			card.RuntimeConfig.BootstrapHost, card.RuntimeConfig.BootstrapPort = e.BootstrapHost, e.BootstrapPort
		}
	case Decode:
		card.Needs = []Mode{Prefill}
		card.RuntimeConfig.EnableLocalIndexer = false
	}
	return card
}
