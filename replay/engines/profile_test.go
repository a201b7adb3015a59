package engines

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/engineargs"
)

// TestUsualSettings checks that SGLang gets as many tokens as vLLM.
func TestUsualSettings(t *testing.T) {
	for text, want := range map[string]int{`{}`: 0, `{"engine_type":"sglang"}`: 1 << 20, `{"engine_type":"sglang","block_size":64}`: 16384} {
		a, err := engineargs.Parse([]byte(text), engineargs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		a, err = engineargs.Parse([]byte(text), engineargs.Options{Unless: DefaultSettings(&a)})
		if err != nil || want > 0 && a.Blocks != want || a.Blocks*a.BlockTokens != 1<<20 {
			t.Errorf("%s: %d blocks of %d, %v; want 1,048,576 tokens", text, a.Blocks, a.BlockTokens, err)
		}
	}
}

// TestProfileSettings applies the settings of the server that a profile was fitted to. Given settings take precedence
// over the profile, and warnings name the given settings.
func TestProfileSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profile.json")
	text := `{"form":"x","version":1,"parameters":{"weights_s":1},"engine":{"vllm_version":"0.20.2","tensor_parallel_size":1,
		"num_gpu_blocks":2588,"block_size":16,"max_num_seqs":128,"max_num_batched_tokens":2048}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(args string) engineargs.Args {
		a, err := engineargs.Parse([]byte(args), engineargs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		unless, err := ProfileSettings(&a, false)
		if err != nil {
			t.Fatal(err)
		}
		if a, err = engineargs.Parse([]byte(args), engineargs.Options{Unless: unless}); err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := read(`{"planner_profile_data":"` + path + `"}`)
	if a.Blocks != 2588 || a.BlockTokens != 16 || a.MaxSeqs != 128 || a.MaxBatchedTokens != 2048 || a.Rules.Reference() {
		t.Errorf("%+v, want the server's settings and vLLM's own rules", a)
	}
	if w := profileWarnings(&a); len(w) != 0 {
		t.Errorf("warnings %v, want none", w)
	}
	a = read(`{"max_num_seqs":64,"planner_profile_data":"` + path + `"}`)
	if w := profileWarnings(&a); a.MaxSeqs != 64 || a.Blocks != 2588 || len(w) != 1 || !strings.HasSuffix(w[0], "was fitted with max_num_seqs 128, not 64") {
		t.Errorf("%+v, %v: want 64 seats, with a warning", a, w)
	}
}

// TestProfileSettingsTRTLLM applies the engine, its rules and its limits from a profile of TensorRT-LLM. If another
// engine is requested, no setting of the profile applies.
func TestProfileSettingsTRTLLM(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profile.json")
	text := `{"form":"x","version":1,"parameters":{"weights_s":1},"engine":{"engine":"trtllm","scheduler_profile":"trtllm-1.2","tensor_parallel_size":1,
		"num_gpu_blocks":300,"block_size":32,"max_num_seqs":12,"max_num_batched_tokens":512}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for engine, want := range map[string]string{"": "", "vllm": "was fitted under the scheduler of trtllm, not that of vllm", "sglang": "was fitted under the scheduler of trtllm, not that of sglang"} {
		args := `{"planner_profile_data":"` + path + `"}`
		if engine != "" {
			args = `{"engine_type":"` + engine + `","planner_profile_data":"` + path + `"}`
		}
		a, err := engineargs.Parse([]byte(args), engineargs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		unless, err := ProfileSettings(&a, false)
		if err != nil {
			t.Fatal(err)
		}
		if engine != "" {
			unless = DropForeign(unless, a.Engine)
		}
		if a, err = engineargs.Parse([]byte(args), engineargs.Options{Unless: unless}); err != nil {
			t.Fatalf("%s: %v", engine, err)
		}
		if w := strings.Join(profileWarnings(&a), ""); !strings.HasSuffix(w, want) || (w == "") != (want == "") {
			t.Errorf("%q: warns %q, want %q", engine, w, want)
		}
		if engine == "" && (a.Engine != engineargs.TRTLLM || a.Profile != "trtllm-1.2" || a.TRTLLM.MaxBatch != 12 || a.TRTLLM.MaxTokens != 512 || a.Blocks != 300 || a.BlockTokens != 32) {
			t.Errorf("%+v, want the server's settings", a)
		}
	}
}

// TestAssumptions checks the assumptions of two clusters.
func TestAssumptions(t *testing.T) {
	parse := func(text string) engineargs.Args {
		a, err := engineargs.Parse([]byte(text), engineargs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	one := Topology{Pools: OnePool(parse(`{"planner_profile_data":"roofline:h100/llama-3.1-70b?tp=4","scheduler_profile":"vllm-0.19","block_size":16,"num_gpu_blocks":100}`), 2)}
	engine := parse(`{"kv_bytes_per_token":1000,"kv_transfer_bandwidth":50}`)
	two := Topology{Pools: TwoPools(Pool{Engine: engine, Count: 1}, Pool{Engine: parse(`{"engine_type":"sglang"}`), Count: 1})}
	for _, c := range []struct {
		topology *Topology
		want     []string
	}{
		{&one, []string{"pass_times: data sheets of h100 and llama-3.1-70b on 4 GPUs a worker; validated against one server only, with experts on 4 GPUs: mean TPOT was -38 to -19 % off on 3 runs", "kv_cache: 1600 tokens a worker (100 blocks of 16)", "scheduler: vllm-0.19's own rules, 256 requests at once, 8192 tokens a pass; its server's defaults on h100 are 1024 and 8192"}},
		{&two, []string{"prefill_pass_times: a built-in model, of no GPU in particular", "decode_scheduler: sglang-0.5.23's own rules, any number of requests at once, chunks of 8192 tokens, a pass planned while one runs", "kv_transfer: 1000 bytes a token at 50 GB/s"}},
	} {
		var all []string
		for _, a := range c.topology.Assumptions() {
			all = append(all, a.Key+": "+a.Text)
		}
		for _, want := range c.want {
			if !slices.Contains(all, want) {
				t.Errorf("no %q in\n%s", want, strings.Join(all, "\n"))
			}
		}
	}
}

// TestProfileLink checks that the link of a profile applies only to prefill and decode pools.
func TestProfileLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profile.json")
	text := `{"version":1,"parameters":{"weights_s":1},"kv_transfer":{"bandwidth_gb_s":25,"latency_s":0.0025,"kv_bytes_per_token":131072}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := `{"planner_profile_data":"` + path + `"}`
	a, err := engineargs.Parse([]byte(args), engineargs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := ProfileSettings(&a, false)
	if err != nil || len(alone) != 0 {
		t.Errorf("%v, %v for workers that do both", alone, err)
	}
	unless, err := ProfileSettings(&a, true)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = engineargs.Parse([]byte(args), engineargs.Options{Unless: unless}); err != nil {
		t.Fatal(err)
	}
	if delay := a.Transfer().Delay(100000); math.Abs(float64(delay)-(2.5+524.288)) > 1e-9 {
		t.Errorf("100,000 tokens arrive after %v ms, want 2.5 ms and 13.1 GB at 25 GB/s", delay)
	}
	if got := transferOf(&a); got != "2.5 ms, and 131072 bytes a token at 25 GB/s" {
		t.Errorf("described as %q", got)
	}
}
