package engines

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/timing"
	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/releases"
)

// ProfileSettings returns the settings of the server that an engine's timing profile was fitted to, as defaults. With
// prefill and decode pools, ProfileSettings includes the settings of the link.
func ProfileSettings(a *engineargs.Args, twoPools bool) ([]engineargs.Setting, error) {
	p, err := a.PassTimes.Profile()
	if err != nil {
		return nil, err
	}
	var all []engineargs.Setting
	if l := p.Link; l != nil && twoPools {
		all = append(all,
			engineargs.Setting{Key: "kv_bytes_per_token", Value: strconv.Itoa(l.BytesPerToken)},
			engineargs.Setting{Key: "kv_transfer_bandwidth", Value: strconv.FormatFloat(l.GBPerSecond, 'g', -1, 64)},
			engineargs.Setting{Key: "kv_transfer_latency_ms", Value: strconv.FormatFloat(1000*l.Latency, 'g', -1, 64)},
		)
	}
	if p.Engine == nil {
		return all, nil
	}
	if p.Engine.Kind != "" {
		all = append(all, engineargs.Setting{Key: engineKey, Value: strconv.Quote(p.Engine.Kind)})
	}
	for _, s := range serverSettings(p.Engine) {
		if s.value > 0 {
			all = append(all, engineargs.Setting{Key: s.key, Value: strconv.Itoa(s.value)})
		}
	}
	if a.Engine == engineargs.VLLM && p.Engine.Kind == "" && p.Engine.Version != "" {
		all = append(all, engineargs.Setting{Key: "scheduler_profile", Value: strconv.Quote(releases.RulesName(p.Engine.Version))})
	}
	if p.Engine.Rules != "" {
		all = append(all, engineargs.Setting{Key: "scheduler_profile", Value: strconv.Quote(p.Engine.Rules)})
	}
	return all, nil
}

// DropForeign removes the settings of a profile that an engine of a given kind rejects. TensorRT-LLM and all other
// engines reject each other's settings.
func DropForeign(all []engineargs.Setting, engine engineargs.Engine) []engineargs.Setting {
	fitted := slices.ContainsFunc(all, func(s engineargs.Setting) bool { return s.Key == engineKey && s.Value == strconv.Quote(timing.TRTLLM) })
	if fitted == (engine == engineargs.TRTLLM) {
		return all
	}
	return slices.DeleteFunc(all, func(s engineargs.Setting) bool {
		return strings.HasPrefix(s.Key, "trtllm.") || slices.Contains([]string{vllm.SeqsKey, vllm.TokensKey, "scheduler_profile", "sglang.max_running_requests", "sglang.chunked_prefill_size"}, s.Key)
	})
}

// engineKey is the name of the argument with the kind of engine.
const engineKey = "engine_type"

// DefaultSettings returns the defaults of an engine. An SGLang engine has a KV cache of as many tokens as a vLLM
// engine.
func DefaultSettings(a *engineargs.Args) []engineargs.Setting {
	if a.Engine == engineargs.VLLM {
		return nil
	}
	usual := engineargs.Default()
	return []engineargs.Setting{{Key: "num_gpu_blocks", Value: strconv.Itoa(max(1, usual.Blocks*usual.BlockTokens/a.BlockTokens))}}
}

// serverSetting is a setting of a measured server, 0 if it is unknown.
type serverSetting struct {
	key   string
	value int
	of    func(*engineargs.Args) int
}

func serverSettings(e *timing.Engine) []serverSetting {
	seqs := serverSetting{vllm.SeqsKey, e.MaxSeqs, func(a *engineargs.Args) int { return a.MaxSeqs }}
	tokens := serverSetting{vllm.TokensKey, e.MaxBatchedTokens, func(a *engineargs.Args) int { return a.MaxBatchedTokens }}
	switch e.Kind {
	case timing.SGLang:
		seqs = serverSetting{"sglang.max_running_requests", e.MaxSeqs, func(a *engineargs.Args) int { return a.SGLang.MaxRunning }}
		tokens = serverSetting{"sglang.chunked_prefill_size", e.MaxBatchedTokens, func(a *engineargs.Args) int { return a.SGLang.ChunkTokens }}
	case timing.TRTLLM: // a has its arguments under the same names
		seqs.key, tokens.key = "trtllm.max_batch_size", "trtllm.max_num_tokens"
	}
	return []serverSetting{
		seqs, tokens,
		{"num_gpu_blocks", e.Blocks, func(a *engineargs.Args) int { return a.Blocks }},
		{"block_size", e.BlockTokens, func(a *engineargs.Args) int { return a.BlockTokens }},
	}
}

// profileWarnings returns the differences between an engine and the server that its timing profile was fitted to.
func profileWarnings(a *engineargs.Args) []string {
	if !a.PassTimes.HoldsProfile() {
		return nil
	}
	p, err := a.PassTimes.Profile()
	if err != nil || p.Engine == nil {
		return nil // the reader of the profile reports the error
	}
	var all []string
	if fitted := cmp.Or(p.Engine.Kind, engineargs.VLLM.String()); fitted != a.Engine.String() {
		return []string{fmt.Sprintf("%v was fitted under the scheduler of %s, not that of %s", a.PassTimes, fitted, a.Engine)}
	}
	for _, s := range serverSettings(p.Engine) {
		if has := s.of(a); s.value > 0 && has != s.value {
			all = append(all, fmt.Sprintf("%v was fitted with %s %d, not %d", a.PassTimes, s.key, s.value, has))
		}
	}
	return all
}

// nodeWarnings returns a warning for a worker with GPUs on several nodes.
func nodeWarnings(a *engineargs.Args) []string {
	f, ok := a.PassTimes.Fit()
	if !ok || f.Nodes() == 1 {
		return nil
	}
	return []string{fmt.Sprintf("a worker of %d %s spans %d nodes of %d GPUs: collectives across nodes run at %g GB/s a GPU, within a node at %g",
		f.GPUs(), f.GPU.Name, f.Nodes(), f.GPU.NodeSize(), f.GPU.NodeGBPerSecond(), f.GPU.Link)}
}
