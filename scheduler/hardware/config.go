package hardware

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// config contains the parsed fields of a model's config.json, by the key names of Hugging Face.
type config struct {
	Type         string   `json:"model_type"`
	Layers       int      `json:"num_hidden_layers"`
	Hidden       int      `json:"hidden_size"`
	Vocab        int      `json:"vocab_size"`
	Heads        int      `json:"num_attention_heads"`
	KVHeads      int      `json:"num_key_value_heads"`
	HeadSize     int      `json:"head_dim"`
	MLP          int      `json:"intermediate_size"`
	Tied         *bool    `json:"tie_word_embeddings"`
	Context      int      `json:"max_position_embeddings"`
	Window       int      `json:"sliding_window"`
	UseWindow    *bool    `json:"use_sliding_window"`
	Chunk        int      `json:"attention_chunk_size"`
	LayerTypes   []string `json:"layer_types"`
	Pattern      int      `json:"sliding_window_pattern"`
	FullInterval int      `json:"full_attention_interval"`

	expertKeys
	latentKeys
	indexKeys
	linearKeys

	Original       int             `json:"original_max_position_embeddings"`
	RopeScaling    json.RawMessage `json:"rope_scaling"`
	RopeParameters json.RawMessage `json:"rope_parameters"`

	Quantization *quantization   `json:"quantization_config"`
	Text         json.RawMessage `json:"text_config"`
}

// expertKeys are the keys of layers of experts.
type expertKeys struct {
	LocalExperts  int   `json:"num_local_experts"`
	Experts       int   `json:"num_experts"`
	Routed        int   `json:"n_routed_experts"`
	PerToken      int   `json:"num_experts_per_tok"`
	ExpertMLP     int   `json:"moe_intermediate_size"`
	SharedMLP     int   `json:"shared_expert_intermediate_size"`
	SharedExperts int   `json:"n_shared_experts"`
	FirstDense    int   `json:"first_k_dense_replace"`
	SparseStep    int   `json:"decoder_sparse_step"`
	MoEStep       int   `json:"interleave_moe_layer_step"`
	DenseLayers   []int `json:"mlp_only_layers"`
	DenseMLP      int   `json:"intermediate_size_mlp"`
}

// latentKeys are the keys of attention over a latent vector (MLA).
type latentKeys struct {
	Rank       int `json:"kv_lora_rank"`
	Query      int `json:"q_lora_rank"`
	Rope       int `json:"qk_rope_head_dim"`
	NoPosition int `json:"qk_nope_head_dim"`
	Value      int `json:"v_head_dim"`
}

// indexKeys are the keys of sparse attention.
type indexKeys struct {
	IndexHeads int `json:"index_n_heads"`
	IndexSize  int `json:"index_head_dim"`
	Chosen     int `json:"index_topk"`
}

// linearKeys are the keys of layers that keep a state.
type linearKeys struct {
	KeyHeads   int    `json:"linear_num_key_heads"`
	KeySize    int    `json:"linear_key_head_dim"`
	ValueHeads int    `json:"linear_num_value_heads"`
	ValueSize  int    `json:"linear_value_head_dim"`
	Conv       int    `json:"linear_conv_kernel_dim"`
	State      string `json:"mamba_ssm_dtype"`
	Gated      bool   `json:"attn_output_gate"`
}

// quantization describes the format of the weights of a checkpoint.
type quantization struct {
	Method     string   `json:"quant_method"`
	Bits       float64  `json:"bits"`
	Skipped    []string `json:"modules_to_not_convert"`
	Activation string   `json:"activation_scheme"`
	BlockSize  []int    `json:"weight_block_size"`
	Groups     map[string]struct {
		Weights     *width `json:"weights"`
		Activations *width `json:"input_activations"`
	} `json:"config_groups"`
	Algorithm string   `json:"quant_algo"`
	Ignore    []string `json:"ignore"`
}

type width struct {
	Bits float64 `json:"num_bits"`
}

// listFamilies returns the supported model types.
func listFamilies() []string {
	return []string{"llama", "llama4", "llama4_text", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "mistral", "mistral3", "ministral", "mixtral",
		"gemma2", "gemma3", "gemma3_text", "gpt_oss", "deepseek_v2", "deepseek_v3", "kimi_k2", "kimi_k25", "kimi_vl", "glm4", "glm4_moe", "minimax_m2", "phi3", "phimoe",
		"deepseek_v32", "glm_moe_dsa", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"}
}

// listHybrids returns the unsupported model types with layers that have a state instead of a KV cache.
func listHybrids() []string {
	return []string{"bamba", "falcon_h1", "falcon_mamba", "granitemoehybrid", "jamba", "kimi_linear", "lfm2", "lfm2_moe", "mamba", "mamba2",
		"minimax", "minimax_m1", "minimax_text_01", "nemotron_h", "olmo_hybrid", "plamo2", "qwen3_next", "recurrent_gemma", "rwkv", "zamba2"}
}

// readModel reads the shape of a model from a config.json file or its directory.
func readModel(path string) (Model, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "config.json")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Model{}, err
	}
	m, err := parseConfig(text)
	if err != nil {
		return Model{}, fmt.Errorf("%s: %w", path, err)
	}
	m.Source = path
	m.Name = filepath.Base(path)
	if m.Name == "config.json" {
		if dir, err := filepath.Abs(path); err == nil {
			m.Name = filepath.Base(filepath.Dir(dir))
		}
	}
	return m, nil
}

// parseConfig returns the shape of a model from the text of its config.json.
func parseConfig(text []byte) (Model, error) {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return Model{}, fmt.Errorf("%w, expected the configuration of a model", err)
	}
	kind, tied := c.Type, c.Tied
	if len(c.Text) > 0 {
		outer := c.Quantization
		if err := json.Unmarshal(c.Text, &c); err != nil {
			return Model{}, fmt.Errorf("text_config: %w", err)
		}
		if c.Quantization == nil {
			c.Quantization = outer
		}
	}
	if c.Tied == nil {
		c.Tied = tied
	}
	for _, name := range []string{kind, c.Type} {
		if slices.Contains(listHybrids(), name) {
			return Model{}, excerpt.Errorf("model_type is %q, which has layers without attention over a KV cache: hybrids are not supported", name)
		}
	}
	if i := slices.IndexFunc(c.LayerTypes, isStateful); i >= 0 && !c.isLinear() {
		return Model{}, excerpt.Errorf("layer_types[%d] is %q: hybrids are not supported", i, c.LayerTypes[i])
	}
	if !slices.Contains(listFamilies(), kind) && !slices.Contains(listFamilies(), c.Type) {
		return Model{}, excerpt.Errorf("model_type is %q, must be one of %s", kind, strings.Join(listFamilies(), ", "))
	}
	return c.model()
}

// isStateful reports whether a layer of that type has a state instead of keys and values.
func isStateful(layer string) bool {
	return layer != "full_attention" && layer != "sliding_attention" && layer != "chunked_attention" && layer != "attention"
}

// largestSize is the maximum for numbers of a configuration. largestSize is far above any real model, and products of
// three such numbers are still exact.
const largestSize = 100_000_000

// checkSizes rejects numbers that are impossible for a model.
func (c *config) checkSizes() error {
	v := reflect.ValueOf(*c)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Type.Kind() != reflect.Int {
			continue
		}
		if n := v.FieldByIndex(f.Index).Int(); n < 0 || n > largestSize {
			return fmt.Errorf("%s is %d, must be 0 to %d", f.Tag.Get("json"), n, largestSize)
		}
	}
	return nil
}

// model returns the shape, or an error that names what is missing.
func (c *config) model() (Model, error) {
	if err := c.checkSizes(); err != nil {
		return Model{}, err
	}
	c.applyDefaults()
	for _, f := range []struct {
		name  string
		value int
	}{{"num_hidden_layers", c.Layers}, {"hidden_size", c.Hidden}, {"vocab_size", c.Vocab}, {"num_attention_heads", c.Heads}, {"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadSize}} {
		if f.value < 1 {
			return Model{}, fmt.Errorf("%s is %d, must be > 0", f.name, f.value)
		}
	}
	m := Model{Family: c.Type, Layers: c.Layers, Hidden: c.Hidden, Vocab: c.Vocab, Heads: c.Heads, KVHeads: c.KVHeads, HeadSize: c.HeadSize,
		MLP: c.MLP, Context: c.Context, Tied: c.Tied != nil && *c.Tied, MoE: c.experts()}
	var err error
	if m.Rope, err = c.readRope(); err != nil {
		return Model{}, err
	}
	if c.DenseMLP > 0 {
		m.MLP = c.DenseMLP
	}
	if m.MoE == nil && m.MLP < 1 || m.MoE != nil && (m.MoE.MLP < 1 || m.MoE.PerToken < 1 || m.MoE.PerToken > m.MoE.Count || m.MoE.Dense > m.Layers) {
		return Model{}, fmt.Errorf("intermediate_size, moe_intermediate_size and num_experts_per_tok do not describe its layers")
	}
	if c.Rank > 0 {
		m.Latent = &Latent{Rank: c.Rank, Rope: c.Rope, Query: c.Query, NoPosition: c.NoPosition, Value: c.Value}
	}
	if err = c.readHybrid(&m); err != nil {
		return Model{}, err
	}
	m.Window, m.WindowLayers = c.windows()
	m.Chunked = m.WindowLayers > 0 && c.Chunk >= c.Window
	m.FullFirst = m.WindowLayers > 0 && len(c.LayerTypes) > 0 && c.LayerTypes[0] == "full_attention"
	return m, c.readQuantization(&m)
}

// applyDefaults sets values that configurations of some families omit.
func (c *config) applyDefaults() {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadSize == 0 && c.Heads > 0 {
		c.HeadSize = c.Hidden / c.Heads
	}
	if c.Tied == nil && strings.HasPrefix(c.Type, "gemma") {
		yes := true
		c.Tied = &yes
	}
	if c.Vocab == 0 && strings.HasPrefix(c.Type, "gemma3") {
		c.Vocab = 262208
	}
}

// experts returns the experts, or nil for a dense model.
func (c *config) experts() *Experts {
	count := max(c.LocalExperts, c.Experts, c.Routed)
	if count == 0 {
		return nil
	}
	e := &Experts{Count: count, PerToken: max(c.PerToken, 1), MLP: c.ExpertMLP, Shared: c.SharedMLP, Dense: c.FirstDense + len(c.DenseLayers)}
	if e.MLP == 0 {
		e.MLP = c.MLP
	}
	if c.SharedExperts > 0 {
		e.Shared = c.SharedExperts * e.MLP
	}
	if strings.HasPrefix(c.Type, "llama4") {
		e.Shared = e.MLP
	}
	if step := max(c.SparseStep, c.MoEStep); step > 1 {
		e.Dense = c.Layers - c.Layers/step
	}
	return e
}

// windows returns the window size of sliding-window layers, in tokens, and their number.
func (c *config) windows() (window, layers int) {
	window = max(c.Window, c.Chunk)
	if window == 0 || c.UseWindow != nil && !*c.UseWindow || c.Context > 0 && window >= c.Context {
		return 0, 0
	}
	for _, layer := range c.LayerTypes {
		if layer == "sliding_attention" || layer == "chunked_attention" {
			layers++
		}
	}
	switch {
	case len(c.LayerTypes) > 0:
	case c.Pattern > 1:
		layers = c.Layers - c.Layers/c.Pattern
	case strings.HasPrefix(c.Type, "gemma3"):
		layers = c.Layers - c.Layers/6
	case strings.HasPrefix(c.Type, "llama4"):
		layers = c.Layers - c.Layers/4
	case c.Type == "gemma2" || c.Type == "gpt_oss":
		layers = c.Layers / 2
	default:
		layers = c.Layers
	}
	return window, layers
}

// readQuantization sets the bits of m's weights.
func (c *config) readQuantization(m *Model) error {
	q := c.Quantization
	if q == nil {
		return nil
	}
	weights, activations := q.Bits, 16.0
	switch method := strings.ToLower(q.Method); {
	case method == "fp8" || method == "fbgemm_fp8":
		weights, activations = 8, 8
	case method == "mxfp4":
		m.ExpertBits = 4.25
		return nil
	case method == "awq" || method == "gptq" || method == "auto-round":
		weights += 0.25 // a scale and a zero point for each group
	case method == "modelopt" && strings.EqualFold(q.Algorithm, "fp8"):
		weights, activations = 8, 8
	case strings.HasPrefix(method, "modelopt"):
		weights, activations = 4.5, 4.5
	case method == "compressed-tensors":
		weights, activations = q.groupBits()
	}
	if weights == 0 {
		return excerpt.Errorf("quantization_config: quant_method is %q, must be fp8, mxfp4, awq, gptq, modelopt or compressed-tensors", q.Method)
	}
	m.Bits, m.ExpertBits, m.ActivationBits, m.Blocks = weights, weights, activations, len(q.BlockSize) > 0
	if m.MoE != nil && slices.ContainsFunc(slices.Concat(q.Ignore, q.Skipped), func(s string) bool { return strings.Contains(s, "attn") }) {
		m.Bits = 16 // only the experts are quantized
	}
	return nil
}

// groupBits returns the bits of weights and activations from the first group that has them.
func (q *quantization) groupBits() (weights, activations float64) {
	for _, group := range q.Groups {
		if group.Weights == nil {
			continue
		}
		weights, activations = group.Weights.Bits, 16
		if weights < 8 {
			weights += 0.5
		}
		if group.Activations != nil && group.Activations.Bits > 0 {
			activations = group.Activations.Bits
		}
	}
	return weights, activations
}
