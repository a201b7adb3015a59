// Package arguments declares engine arguments that only vLLM has: limits and order of a pass, windows of layers, and
// single rules.
package arguments

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
	"github.com/replay-llm/replay/schema"
)

// Values of layer_types in a config.json: the tokens that a layer attends to.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
	chunkedAttention = "chunked_attention"
)

// LayerTypes returns layer_types for a model with a number of layers with windows and of full layers without windows.
// The layers with windows are first unless fullFirst is set.
func LayerTypes(windowed, full int, chunked, fullFirst bool) []string {
	types := make([]string, windowed+full)
	for i := range types {
		switch {
		case fullFirst && i < full, !fullFirst && i >= windowed:
			types[i] = fullAttention
		case chunked:
			types[i] = chunkedAttention
		default:
			types[i] = slidingAttention
		}
	}
	return types
}

// DeclareWindows declares windows, and which layers have them. Without layer_types all layers have windows.
func DeclareWindows(s *vllm.Settings, d *schema.Decl) {
	var sliding, chunk int
	d.Limit(&sliding, schema.Row{
		Key: "sliding_window",
		Doc: schema.Doc{Unit: "tokens", Default: "none", Text: "size of the sliding window of some layers. Requires vLLM's own rules (docs/rules/vllm.md); `--model` sets it", Part: "vLLM"},
	})
	d.Limit(&chunk, schema.Row{
		Key: "attention_chunk_size",
		Doc: schema.Doc{Unit: "tokens", Default: "none", Text: "size of the attention chunk of some layers, a multiple of `block_size`; not with `sliding_window`", Part: "vLLM"},
	})
	types := declareLayerTypes(d)
	d.Bool(&s.NoHybrid, schema.Row{
		Key: "disable_hybrid_kv_cache_manager",
		Doc: schema.Doc{Text: "layers with a window keep all their KV blocks, as other layers do", Part: "vLLM"},
	})
	switch {
	case !d.OK():
		return
	case sliding > 0 && chunk > 0:
		d.FailRule("attention_chunk_size", strconv.Itoa(chunk), "not supported with sliding_window")
		return
	}
	kind, tokens := slidingAttention, sliding
	if chunk > 0 {
		kind, tokens = chunkedAttention, chunk
	}
	windowed, full := 0, 0
	for _, t := range types {
		switch t {
		case fullAttention:
			full++
		case kind:
			windowed++
		default:
			d.Fail("layer_types", strconv.Quote(t), fmt.Sprintf("%q or %q with the window that is given", kind, fullAttention))
			return
		}
	}
	if len(types) == 0 {
		windowed = 1
	}
	if len(types) > 0 && windowed > 0 && tokens == 0 {
		d.Fail("sliding_window", "missing", "the tokens of the windows that layer_types has")
	}
	if windowed == 0 || tokens == 0 || s.NoHybrid && full > 0 {
		return
	}
	s.Windows = vllm.Windows{Tokens: tokens, Chunked: chunk > 0, FullFirst: len(types) > 0 && types[0] == fullAttention}
	s.Windows.Groups, s.Windows.Full = windows.GroupLayers(windowed, full)
}

// declareLayerTypes declares layer_types: the tokens that each layer attends to.
func declareLayerTypes(d *schema.Decl) (types []string) {
	text := d.Any(schema.Row{
		Key: "layer_types",
		Doc: schema.Doc{Default: "all layers have the window", Text: "list of the attention type of each layer, as in a `config.json`: `sliding_attention`, `chunked_attention` or `full_attention`", Part: "vLLM"},
	})
	if text == "" || text == "null" || !d.OK() {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &types); err != nil {
		d.FailText("layer_types", "a list of names")
	}
	return types
}
