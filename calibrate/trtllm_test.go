package calibrate

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/calibrate/measured/measuredtest"
	"github.com/replay-llm/replay/scheduler/timing"
)

// trtllmMeta returns the settings of a server of TensorRT-LLM by its own names, with some replaced text.
func trtllmMeta(replace ...string) string {
	return strings.NewReplacer(replace...).Replace(`{"engine":"trtllm","trtllm_version":"1.2.1","model":"llama-3.1-8b","hardware":{"device_name":"h100"},
 "kv_cache":{"num_gpu_blocks":300,"block_size":32},
 "server_args":{"max_batch_size":12,"max_num_tokens":512,"enable_chunked_prefill":true,"kv_cache_config":{"enable_block_reuse":true,"free_gpu_memory_fraction":0.8},
  "scheduler_config":{"capacity_scheduler_policy":"MAX_UTILIZATION"}}}`)
}

// truthOfTRTLLM returns the parameters of a simulated server of TensorRT-LLM.
func truthOfTRTLLM(s *measured.Settings) timing.Parameters {
	f, _ := s.Fit()
	p := timing.Roofline(&f).Parameters
	p.Base, p.MixedBase, p.Knee = 4e-3, 9e-3, 4
	p.Weights *= 1.3
	return p
}

// TestFitTRTLLM checks that the parameters of a simulated TensorRT-LLM server are found again under its own rules and
// with its settings. The profile has the rules and the settings.
func TestFitTRTLLM(t *testing.T) {
	t.Parallel()
	m, err := Read(measureServer(t, trtllmMeta(), 120, truthOfTRTLLM), 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), m, Options{Holdout: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	p, truth, e := &r.Profile.Parameters, truthOfTRTLLM(&m.Settings), r.Profile.Engine
	for _, step := range []timing.Step{
		{Tokens: 8, Requests: 8, Context: 8 * 300, Readers: 8, Decodes: 8, DecodeLength: 8 * 300},
		{Tokens: 306, Requests: 7, Context: 6 * 300, Readers: 6, Pairs: 300 * 150, Chunks: 1, ChunkTokens: 300},
	} {
		if got, want := p.Step(&step), truth.Step(&step); math.Abs(got/want-1) > 0.03 {
			t.Errorf("a pass of %+v takes %.2f ms, want %.2f within 3 %%", step, got, want)
		}
	}
	if !r.Holds() {
		t.Errorf("held-out means are not within 5 %%\n%s", &b)
	}
	for _, c := range r.Checks[:1] {
		for _, e := range c.Errors {
			if math.Abs(e.Mean) > 0.02 {
				t.Errorf("fitted to all: %+v, want means within 2 %%", e)
			}
		}
	}
	if e.Kind != timing.TRTLLM || e.Rules != "trtllm-1.2" || e.MaxSeqs != 12 || e.MaxBatchedTokens != 512 || e.Blocks != 300 || e.BlockTokens != 32 {
		t.Errorf("the profile is of %+v", e)
	}
	if !strings.Contains(b.String(), "Rules: trtllm-1.2, by its published source, not compared with the engine.") {
		t.Errorf("the result does not name the source of the rules:\n%s", &b)
	}
}

// TestTRTLLMRunsAreAlike checks that a run without settings gets the settings of another run of the same server.
func TestTRTLLMRunsAreAlike(t *testing.T) {
	one, two := measureServer(t, trtllmMeta(), 30, truthOfTRTLLM), measureServer(t, trtllmMeta(), 30, truthOfTRTLLM)
	if err := os.Remove(filepath.Join(two, "meta.json")); err != nil {
		t.Fatal(err)
	}
	runs, err := ReadAll([]string{one, two}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkAlike(runs); err != nil {
		t.Error(err)
	}
	if a, b := runs[0].Settings, runs[1].Settings; a.Engine != b.Engine || !slices.Equal(a.EngineArgs(), b.EngineArgs()) {
		t.Errorf("the second run has %+v, want %+v", b, a)
	}
}

// TestReadTRTLLM checks the reading of a TensorRT-LLM server from its log of KV blocks, its command and a deployment.
// Settings that the simulated scheduler does not support are refused.
func TestReadTRTLLM(t *testing.T) {
	dir := measureServer(t, trtllmMeta(), 30, truthOfTRTLLM)
	if err := os.Remove(filepath.Join(dir, "meta.json")); err != nil {
		t.Fatal(err)
	}
	command := "trtllm-serve meta-llama/Llama-3.1-8B-Instruct --backend pytorch --max_batch_size 12 \\\n --max_num_tokens 512 --kv_cache_free_gpu_memory_fraction 0.8"
	measuredtest.Write(t, filepath.Join(dir, "trtllm.log"), "[TRT-LLM] [I] Max KV cache blocks: tokens per block=64, primary blocks=321, secondary blocks=0\n")
	flags := map[string]string{"engine": "trtllm", "gpu": "h100", "model": "llama-3.1-8b", "enable-chunked-context": "true", "capacity-scheduler-policy": "MAX_UTILIZATION", "scheduler-profile": "trtllm-1.2"}
	for _, c := range []struct{ more, want string }{
		{"", ""},
		{" --pp_size 2", "pipeline_parallel_size is 2, must be 1: micro-batches of its stages are not simulated"},
		{" --kv_cache_config.host_cache_size 1000", "kv_cache_config.host_cache_size is 1000, must be 0"},
		{" --speculative_config.decoding_type MTP", "speculative_config.decoding_type is MTP, must be absent"},
		{" --tp_size 2 --enable_attention_dp true", "2 ranks or servers of TensorRT-LLM that share the requests"},
		{" --max_num_tokens 8", "trtllm.max_num_tokens is 8"},
	} {
		measuredtest.Write(t, filepath.Join(dir, "command.txt"), command+c.more+"\n")
		m, err := readKnown(dir, 0, measured.KnownSettings(flags))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.more, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s := &m.Settings
		if s.Kind != "trtllm" || s.Blocks != 321 || s.BlockTokens != 64 || s.MaxSeqs != 12 || s.MaxBatchedTokens != 512 || s.Rules != "trtllm-1.2" || s.GPU != "h100" {
			t.Errorf("read %+v", s)
		}
		var args []string
		for _, x := range s.EngineArgs() {
			args = append(args, x.Key+"="+x.Value)
		}
		if text := strings.Join(args, " "); !strings.Contains(text, `trtllm.capacity_scheduler_policy="MAX_UTILIZATION"`) || !strings.Contains(text, "trtllm.enable_chunked_prefill=true") {
			t.Errorf("engine arguments %s", text)
		}
		if _, err := newSimulation(m, nil, true); err == nil || !strings.Contains(err.Error(), "must follow its own rules") {
			t.Errorf("%v, want a refusal of the reference's rules", err)
		}
	}
	// The settings file in the command takes precedence over the command.
	measuredtest.Write(t, filepath.Join(dir, "command.txt"), command+" --config /etc/extra.yaml\n")
	known := measured.KnownSettings(map[string]string{"engine": "trtllm", "gpu": "h100", "model": "llama-3.1-8b"})
	m, err := readKnown(dir, 0, known)
	if err != nil || !slices.ContainsFunc(m.Settings.Notes, func(n string) bool { return strings.Contains(n, "/etc/extra.yaml are not read") }) {
		t.Errorf("%v, want a note about the file", err)
	}
	measuredtest.Write(t, filepath.Join(dir, "extra.yaml"), "max_num_tokens: 640\nenable_chunked_prefill: true\nkv_cache_config:\n  enable_partial_reuse: false\nscheduler_config: {capacity_scheduler_policy: MAX_UTILIZATION}\n")
	if m, err = readKnown(dir, 0, known); err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(m.Settings.EngineArgs()); m.Settings.MaxBatchedTokens != 640 || m.Settings.MaxSeqs != 12 || !strings.Contains(text, "trtllm.enable_partial_reuse false") || !strings.Contains(text, "MAX_UTILIZATION") {
		t.Errorf("read %+v", m.Settings)
	}
	measuredtest.Write(t, filepath.Join(dir, "extra.yaml"), "max_num_tokens: [640\n")
	if _, err := readKnown(dir, 0, known); err == nil || !strings.Contains(err.Error(), "extra.yaml:") {
		t.Errorf("%v, want the place of what is wrong", err)
	}
	measuredtest.Write(t, filepath.Join(dir, "meta.json"), measuredtest.Meta())
	if _, err := readKnown(dir, 0, measured.KnownSettings(flags)); err == nil || !strings.Contains(err.Error(), "the engine must be trtllm, and the run is of vllm") {
		t.Errorf("%v, want a refusal of another engine", err)
	}
}
