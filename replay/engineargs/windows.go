package engineargs

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// What layers attend to, by the names that config.json has for layer_types.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
	chunkedAttention = "chunked_attention"
)

// LayerTypes returns the value of layer_types for a model with so many layers with a
// window, which are the first unless those without are, and others.
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

// readWindows reads which layers attend to the last tokens alone. Without layer_types all
// do.
func (r *reader) readWindows(a *Args) {
	var sliding, chunk int
	r.limit("sliding_window", &sliding)
	r.limit("attention_chunk_size", &chunk)
	types := r.readLayerTypes()
	r.flag("disable_hybrid_kv_cache_manager", &a.NoHybrid)
	switch {
	case r.err != nil:
		return
	case sliding > 0 && chunk > 0:
		r.fail("attention_chunk_size", strconv.Itoa(chunk), "none beside sliding_window")
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
			r.fail("layer_types", strconv.Quote(t), fmt.Sprintf("%q or %q with the window that is given", kind, fullAttention))
			return
		}
	}
	if len(types) == 0 {
		windowed = 1
	}
	if len(types) > 0 && windowed > 0 && tokens == 0 {
		r.fail("sliding_window", "missing", "the tokens of the windows that layer_types has")
	}
	if windowed == 0 || tokens == 0 || a.NoHybrid && full > 0 {
		return
	}
	a.Windows = vllm.Windows{Tokens: tokens, Chunked: chunk > 0, FullFirst: len(types) > 0 && types[0] == fullAttention}
	a.Windows.Groups, a.Windows.Full = vllm.GroupLayers(windowed, full)
}

// checkWindows refuses groups of layers that cannot be.
func (a *Args) checkWindows() error {
	key := "sliding_window"
	if a.Windows.Chunked {
		key = "attention_chunk_size"
	}
	if err := a.Windows.Check(a.BlockTokens); err != nil {
		return fmt.Errorf("%s and layer_types: %w", key, err)
	}
	if a.Windows.Given() && a.G2.Blocks > 0 {
		return &KeyError{"num_g2_blocks", strconv.Itoa(a.G2.Blocks), "none beside " + key}
	}
	return nil
}

// readLayerTypes reads what each layer attends to.
func (r *reader) readLayerTypes() (types []string) {
	text := r.raw("layer_types")
	if text == nil || string(text) == "null" || r.err != nil {
		return nil
	}
	if err := json.Unmarshal(text, &types); err != nil {
		r.fail("layer_types", excerpt.CutLine(text), "a list of names")
	}
	return types
}

// PoolShare returns what the pool of layers with a window has of the other's tokens.
func (s *SGLangArgs) PoolShare() float64 {
	if s.WindowShare == 0 {
		return 0.8
	}
	return s.WindowShare
}

// PoolWindow returns the window of the layers that have a pool of their own, 0 if none has.
func (s *SGLangArgs) PoolWindow() int {
	if s.NoWindowPool {
		return 0
	}
	return s.Window
}
