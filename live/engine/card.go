package engine

import (
	"cmp"
	"github.com/goccy/go-json"
)

// ModelCard is what a worker tells callers about its model.
type ModelCard struct {
	Name             string         `json:"name"`       // that users ask for
	Model            string         `json:"model_name"` // that the engine calls it
	ModelType        []EndpointType `json:"model_type"` // kinds of requests; prefill alone on prefill workers
	WorkerType       Mode           `json:"worker_type"`
	Needs            []Mode         `json:"needs,omitempty"` // the kinds of workers it does not work without
	ContextLength    int            `json:"context_length,omitempty"`
	KVCacheBlockSize int            `json:"kv_cache_block_size,omitempty"`
	RuntimeConfig    RuntimeConfig  `json:"runtime_config"`
}

// RuntimeConfig is what a router wants to know of a worker. Zero is not told.
type RuntimeConfig struct {
	TotalKVBlocks         int            `json:"total_kv_blocks,omitempty"`
	MaxNumSeqs            int            `json:"max_num_seqs,omitempty"`
	MaxNumBatchedTokens   int            `json:"max_num_batched_tokens,omitempty"`
	DataParallelSize      int            `json:"data_parallel_size"`
	DataParallelStartRank int            `json:"data_parallel_start_rank"`
	EnableLocalIndexer    bool           `json:"enable_local_indexer"`
	KVRouting             bool           `json:"kv_routing"` // the worker publishes KV events
	BootstrapHost         string         `json:"bootstrap_host,omitempty"`
	BootstrapPort         int            `json:"bootstrap_port,omitempty"`
	RuntimeData           map[string]any `json:"runtime_data,omitempty"`
}

// newCard returns the card of a worker.
func newCard(c *WorkerConfig, types []EndpointType, e EngineConfig) ModelCard {
	card := ModelCard{
		Name: cmp.Or(c.ModelName, e.ServedModelName, e.Model), Model: e.Model,
		ModelType: types, WorkerType: c.Mode,
		ContextLength: e.ContextLength, KVCacheBlockSize: e.KVCacheBlockSize,
		RuntimeConfig: RuntimeConfig{
			TotalKVBlocks: e.TotalKVBlocks, MaxNumSeqs: e.MaxNumSeqs, MaxNumBatchedTokens: e.MaxNumBatchedTokens,
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

// encodeCard returns the card as discovery keeps it.
func (c ModelCard) encodeCard() (json.RawMessage, error) { return json.Marshal(c) }
