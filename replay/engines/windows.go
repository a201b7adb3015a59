package engines

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/arguments"
	"github.com/replay-llm/replay/scheduler/vllm/windows"
)

// groupWindows returns the settings that divide the layers of m into groups, as a vLLM server does. groupWindows
// returns no settings if the hybrid KV cache manager is disabled or windows are given. Host memory behind the KV
// blocks disables the manager.
func groupWindows(a *engineargs.Args, m *hardware.Model, gives func(key string) bool) []engineargs.Setting {
	full := m.Layers - m.WindowLayers
	if m.WindowLayers == 0 || full > 0 && keepsWhole(a) || a.G2.Asked() {
		return nil
	}
	window := engineargs.Setting{Key: "sliding_window", Value: strconv.Itoa(m.Window)}
	if m.Chunked {
		window.Key = "attention_chunk_size"
	}
	for _, key := range []string{"sliding_window", "attention_chunk_size", "layer_types"} {
		if gives(key) {
			return nil
		}
	}
	if m.Chunked && m.Window%max(1, a.BlockTokens) != 0 {
		return nil
	}
	types, _ := json.Marshal(arguments.LayerTypes(m.WindowLayers, full, m.Chunked, m.FullFirst))
	return []engineargs.Setting{window, {Key: "layer_types", Value: string(types)}}
}

// keepsWhole reports whether layers with windows keep all tokens, like other layers, because the hybrid KV cache
// manager is disabled. Host memory behind the KV blocks also disables this manager.
func keepsWhole(a *engineargs.Args) bool { return a.NoHybrid || a.G2.Asked() }

// groupsOf returns the facts about the groups of f's layers for memory computations.
func groupsOf(f *hardware.Fit, a *engineargs.Args) hardware.Groups {
	m, w := &f.Model, a.Windows
	if a.Engine == engineargs.SGLang && m.WindowLayers > 0 {
		if a.SGLang.PoolWindow() > 0 {
			return hardware.Groups{Share: a.SGLang.PoolShare()}
		}
		return hardware.Groups{Share: 1}
	}
	own := a.Engine == engineargs.VLLM && (a.Profile != "" || !a.Rules.Reference())
	switch {
	case !own || m.WindowLayers == 0:
		return hardware.Groups{}
	case !w.Given():
		return hardware.Groups{KeepAll: keepsWhole(a)}
	}
	groups, others := windows.GroupLayers(m.WindowLayers, m.Layers-m.WindowLayers)
	size := (m.WindowLayers + groups - 1) / groups
	if others > 0 {
		size = max(size, (m.Layers-m.WindowLayers+others-1)/others)
	}
	c := vllm.Config{Settings: vllm.Settings{Windows: w, MaxBatchedTokens: f.MaxBatch}, BlockTokens: f.BlockTokens}
	return hardware.Groups{Layers: size, Blocks: c.SequenceBlocks(f.LongestSequence())}
}

// describeBlocks describes the KV cache of a worker.
func describeBlocks(a *engineargs.Args) string {
	n, w := a.DPSize*a.Blocks, &a.Windows
	if a.Engine == engineargs.SGLang && a.SGLang.PoolWindow() > 0 {
		return fmt.Sprintf("%d tokens a worker (%d blocks of %d); layers with a window of %d tokens have %g times as many",
			n*a.BlockTokens, n, a.BlockTokens, a.SGLang.Window, a.SGLang.PoolShare())
	}
	if !w.Given() {
		return fmt.Sprintf("%d tokens a worker (%d blocks of %d)%s%s", n*a.BlockTokens, n, a.BlockTokens, describeHost(a), describeWindows(a))
	}
	kind := "a window"
	if w.Chunked {
		kind = "chunks"
	}
	text := fmt.Sprintf("%d blocks of %d tokens a worker; ", n, a.BlockTokens)
	if w.Groups+w.Full == 1 {
		return text + fmt.Sprintf("a sequence gives up what %s of %d tokens has passed", kind, w.Tokens)
	}
	return text + fmt.Sprintf("a sequence takes blocks in %d groups of layers, and in %d with %s of %d tokens gives up what that has passed",
		w.Groups+w.Full, w.Groups, kind, w.Tokens)
}

// describeHost returns the host memory behind the KV blocks of a worker, "" if there is none.
func describeHost(a *engineargs.Args) string {
	if blocks := a.HostBlocks(); blocks > 0 {
		by := ""
		if a.G2.Connector == engineargs.SimpleCPU {
			by = ", kept by SimpleCPUOffloadConnector"
		}
		return fmt.Sprintf(", %d more in host memory%s", a.DPSize*blocks*a.BlockTokens, by)
	}
	return ""
}

// describeWindows describes how KV blocks count the windows of a model without groups, "" for all other models.
func describeWindows(a *engineargs.Args) string {
	f, ok := a.PassTimes.Fit()
	switch {
	case ok && f.Model.Linear != nil:
		return describeStates(a, &f)
	case !ok || f.Model.WindowLayers == 0:
		return ""
	case a.Engine == engineargs.SGLang, !a.Rules.Reference() && keepsWhole(a):
		return "; layers with sliding windows keep all tokens"
	case f.Live > 0:
		return fmt.Sprintf("; sliding windows count as in sequences of %d tokens, the mean of this workload", f.Live)
	}
	return "; blocks count sliding windows as in the longest sequences, so that short ones have less room than this"
}

// describeStates describes how KV blocks count the states of linear layers.
func describeStates(a *engineargs.Args, f *hardware.Fit) string {
	length, of := f.Live, "the mean of this workload"
	if length == 0 {
		length, of = f.LongestSequence(), "the longest"
	}
	layers := f.Model.Linear.Layers
	if a.Engine == engineargs.SGLang {
		return fmt.Sprintf("; the state of %d linear layers, %.1f MiB a sequence and GPU, counts as in sequences of %d tokens, %s; the pool of states and its limit of requests are not simulated",
			layers, f.StateBytes()/(1<<20), length, of)
	}
	tokens, blocks := f.StateBlocks()
	return fmt.Sprintf("; the state of %d linear layers counts as %d blocks of %d tokens a sequence, in sequences of %d tokens, %s; the scheduler's rules for these blocks are not simulated, and prefixes hit as if states were cached",
		layers, blocks, tokens, length, of)
}

// checkChunks rejects engines with chunked attention in all layers and a router that follows caches. An engine with
// chunked attention in all layers frees the blocks of a chunk when the next chunk begins. KV events of this engine
// then name blocks by earlier blocks, which may be evicted.
func (t *Topology) checkChunks(p *Pool) error {
	if w := &p.Engine.Windows; w.Chunked && w.Full == 0 && t.Choice().FollowsCaches() {
		return errors.New("layer_types has chunked_attention alone, must have full_attention too with a router that follows KV caches: use another router")
	}
	return nil
}
