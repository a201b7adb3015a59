package hardware

import (
	"fmt"
	"strings"
)

// listSparse returns the models with sparse latent attention, which attends only to the tokens selected by an
// indexer.
func listSparse() []Model {
	deepSeek := Model{Name: "deepseek-v3.2", Source: "huggingface.co/deepseek-ai/DeepSeek-V3.2", Family: "deepseek_v32", Layers: 61, Hidden: 7168, Vocab: 129280,
		Heads: 128, KVHeads: 128, HeadSize: 128, MLP: 18432, Context: 163840, Bits: 8, ExpertBits: 8, ActivationBits: 8, Blocks: true,
		MoE:     &Experts{Count: 256, PerToken: 8, MLP: 2048, Shared: 2048, Dense: 3},
		Latent:  &Latent{Rank: 512, Rope: 64, Query: 1536, NoPosition: 128, Value: 128},
		Indexer: &Indexer{Heads: 64, HeadSize: 128, Chosen: 2048}}
	glm := Model{Name: "glm-5", Source: "huggingface.co/zai-org/GLM-5", Family: "glm_moe_dsa", Layers: 78, Hidden: 6144, Vocab: 154880,
		Heads: 64, KVHeads: 64, HeadSize: 64, MLP: 12288, Context: 202752,
		MoE:     &Experts{Count: 256, PerToken: 8, MLP: 2048, Shared: 2048, Dense: 3},
		Latent:  &Latent{Rank: 512, Rope: 64, Query: 2048, NoPosition: 192, Value: 256},
		Indexer: &Indexer{Heads: 32, HeadSize: 128, Chosen: 2048}}
	newer := glm
	newer.Name, newer.Source = "glm-5.1", "huggingface.co/zai-org/GLM-5.1"
	return []Model{deepSeek, glm, newer}
}

// listLinear returns the models with linear layers: three of four layers have a state instead of keys and values.
func listLinear() []Model {
	qwen := func(name, source string, layers, hidden, heads, kv, mlp, values int, e *Experts) Model {
		m := Model{Name: name, Source: "huggingface.co/Qwen/" + source, Family: "qwen3_5_text", Layers: layers, Hidden: hidden, Vocab: 248320,
			Heads: heads, KVHeads: kv, HeadSize: 256, MLP: mlp, Context: 262144, Gated: true, MoE: e,
			Linear: &LinearLayers{Kind: gatedDelta, Layers: layers - layers/4, KeyHeads: 16, KeySize: 128, ValueHeads: values, ValueSize: 128, Conv: 4, StateBytes: 4}}
		if e != nil {
			m.Family = "qwen3_5_moe_text"
		}
		return m
	}
	return []Model{
		qwen("qwen3.5-27b", "Qwen3.5-27B", 64, 5120, 24, 4, 17408, 48, nil),
		qwen("qwen3.5-35b-a3b", "Qwen3.5-35B-A3B", 40, 2048, 16, 2, 0, 32, &Experts{Count: 256, PerToken: 8, MLP: 512, Shared: 512}),
		qwen("qwen3.5-122b-a10b", "Qwen3.5-122B-A10B", 48, 3072, 32, 2, 0, 64, &Experts{Count: 256, PerToken: 8, MLP: 1024, Shared: 1024}),
		qwen("qwen3.5-397b-a17b", "Qwen3.5-397B-A17B", 60, 4096, 32, 2, 0, 64, &Experts{Count: 512, PerToken: 10, MLP: 1024, Shared: 1024}),
	}
}

// gatedDelta is the name of the rule of linear layers in the operator tables.
const gatedDelta = "gdn"

// refuseName returns the reason why a known model is not simulated, or "" for other models.
func refuseName(name string) string {
	for _, r := range []struct{ prefix, reason string }{
		{"deepseekv4", "attention to compressed keys and values is not simulated, and no measured server was at hand"},
		{"kimik3", "linear attention by channels (KDA) and experts narrower than the model are not simulated, and no measured server was at hand"},
		{"glm5.2", "layers that take the choice of another layer's indexer are not simulated"},
		{"glm5.3", "layers that take the choice of another layer's indexer are not simulated"},
	} {
		if strings.HasPrefix(plainName(name), r.prefix) {
			return r.reason
		}
	}
	return ""
}

// isLinear reports whether the configuration is of a supported model with linear layers.
func (c *config) isLinear() bool { return strings.HasPrefix(c.Type, "qwen3_5") }

// readHybrid sets the indexer and the linear layers of m.
func (c *config) readHybrid(m *Model) error {
	m.Gated = c.Gated
	if c.Chosen > 0 && m.Latent != nil {
		m.Indexer = &Indexer{Heads: c.IndexHeads, HeadSize: c.IndexSize, Chosen: c.Chosen}
	}
	if !c.isLinear() {
		return nil
	}
	l := &LinearLayers{Kind: gatedDelta, KeyHeads: c.KeyHeads, KeySize: c.KeySize, ValueHeads: c.ValueHeads, ValueSize: c.ValueSize, Conv: c.Conv, StateBytes: 4}
	if c.State == "bfloat16" || c.State == "float16" {
		l.StateBytes = 2
	}
	for _, layer := range c.LayerTypes {
		if layer == "linear_attention" {
			l.Layers++
		}
	}
	if len(c.LayerTypes) == 0 && c.FullInterval > 0 {
		l.Layers = c.Layers - c.Layers/c.FullInterval
	}
	if l.KeyHeads < 1 || l.KeySize < 1 || l.ValueHeads < 1 || l.ValueSize < 1 || l.Conv < 1 || l.Layers < 1 || l.Layers >= m.Layers {
		return fmt.Errorf("layer_types and the keys that begin with linear_ do not describe its linear layers")
	}
	m.Linear = l
	return nil
}
