package launch

import (
	"cmp"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/deployment"
	"github.com/replay-llm/replay/schema"
)

// cases returns clusters of each engine by name. One cluster of each engine sets every setting that the engine has
// arguments for.
func cases() map[string]*Cluster {
	base := func(engine, release string, pools ...Pool) *Cluster {
		for i := range pools {
			pools[i].GPUs, pools[i].Nodes = cmp.Or(pools[i].GPUs, 4), 1
		}
		return &Cluster{Name: "llama-3-1-70b", Engine: engine, Release: release, Model: "meta-llama/Llama-3.1-70B", GPU: "h100", Router: "round_robin", Pools: pools}
	}
	limits := map[string]string{"tp": "4", "max-model-len": "131072", "max-num-seqs": "256", "max-num-batched-tokens": "1024", "gpu-memory-utilization": "0.9"}
	with := func(all map[string]string, more ...string) map[string]string {
		all = maps.Clone(all)
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	sglang := map[string]string{"tp": "4", "max-model-len": "131072", "max-running-requests": "2048", "chunked-prefill-size": "8192"}
	trtllm := map[string]string{"tp": "4", "max-model-len": "131072", "max-batch-size": "2048", "max-num-tokens": "8192"}
	all := map[string]*Cluster{
		"vllm":     base("vllm", "0.33.0", Pool{Workers: 3, Settings: limits}),
		"vllm-one": base("vllm", "0.33.0", Pool{Workers: 1, Settings: limits}),
		"vllm-all": base("vllm", "0.33.0", Pool{Workers: 2, Settings: with(limits, "pp", "2", "dp", "2", "ep", "8", "quantization", "fp8", "kv-cache-dtype", "fp8", "graphs", "piecewise",
			"block-size", "32", "num-gpu-blocks", "5000", "enable-prefix-caching", "false", "enable-chunked-prefill", "true", "scheduling-policy", "priority",
			"speculative-config", `{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}`)}),
		"vllm-split":  base("vllm", "0.33.0", Pool{Role: "prefill", Workers: 2, Settings: limits}, Pool{Role: "decode", Workers: 1, Settings: limits}),
		"vllm-uneven": base("vllm", "0.33.0", Pool{Role: "prefill", Workers: 2, Settings: limits}, Pool{Role: "decode", Workers: 1, GPUs: 2, Settings: with(limits, "tp", "2")}),
		"sglang":      base("sglang", "0.5.23", Pool{Workers: 2, Settings: sglang}),
		"sglang-all": base("sglang", "0.5.23", Pool{Workers: 1, Settings: with(sglang, "tp", "2", "dp", "4", "ep", "8", "pp", "2", "quantization", "fp8", "kv-cache-dtype", "fp8", "graphs", "none", "block-size", "64", "num-gpu-blocks", "1000",
			"enable-prefix-caching", "false", "schedule-policy", "lpm", "max-prefill-tokens", "4096", "schedule-conservativeness", "0.8", "prefill-max-requests", "8", "overlap", "false",
			"enable-mixed-chunk", "true", "enable-priority-scheduling", "true", "gpu-memory-utilization", "0.85", "radix-eviction-policy", "lfu")}),
		"sglang-more": base("sglang", "0.5.23", Pool{Workers: 1, Settings: with(sglang, "num-reserved-decode-tokens", "256", "load-balance-method", "total_tokens", "swa-full-tokens-ratio", "0.5",
			"disable-hybrid-swa-memory", "true", "retraction-policy", "priority", "prefill-decode-interval", "2", "prefill-decode-interval-min-bs", "4", "schedule-low-priority-values-first", "true",
			"priority-scheduling-preemption-threshold", "5", "disable-priority-preemption", "true", "enable-hierarchical-cache", "true", "hicache-ratio", "3", "hicache-size", "20",
			"hicache-write-policy", "write_through_selective", "hicache-storage-backend", "file", "hicache-storage-prefetch-policy", "best_effort", "decode-log-interval", "10",
			"speculative-algorithm", "EAGLE", "speculative-num-steps", "5", "speculative-eagle-topk", "4", "speculative-num-draft-tokens", "8")}),
		"sglang-split":  base("sglang", "0.5.23", Pool{Role: "prefill", Workers: 1, Settings: sglang}, Pool{Role: "decode", Workers: 2, Settings: sglang}),
		"trtllm":        base("trtllm", "1.3.0", Pool{Workers: 2, Settings: trtllm}),
		"trtllm-split":  base("trtllm", "1.3.0", Pool{Role: "prefill", Workers: 1, Settings: with(trtllm, "num-gpu-blocks", "1000")}, Pool{Role: "decode", Workers: 2, Settings: with(trtllm, "num-gpu-blocks", "1000")}),
		"trtllm-uneven": base("trtllm", "1.3.0", Pool{Role: "prefill", Workers: 2, Settings: trtllm}, Pool{Role: "decode", Workers: 1, GPUs: 8, Settings: with(trtllm, "tp", "8")}),
		"trtllm-all": base("trtllm", "1.3.0", Pool{Workers: 1, Settings: with(trtllm, "tp", "1", "dp", "4", "ep", "4", "pp", "2", "kv-cache-dtype", "fp8", "graphs", "none", "block-size", "64", "enable-prefix-caching", "false",
			"capacity-scheduler-policy", "MAX_UTILIZATION", "context-chunking-policy", "EQUAL_PROGRESS", "enable-chunked-context", "true", "disable-overlap-scheduler", "true", "enable-partial-reuse", "false",
			"copy-on-partial-reuse", "false", "batch-wait-timeout-iters", "3", "batch-wait-max-tokens-ratio", "0.5", "enable-balance", "true", "timeout-iters", "20", "batching-wait-iters", "5")}),
	}
	all["vllm"].Router, all["sglang"].Router, all["trtllm"].Router, all["trtllm-split"].Router = "kv", "p2c", "kv", "kv"
	return all
}

// targetsOf returns the targets that support the engine of a cluster.
func targetsOf(c *Cluster) []string { return []string{c.Engine, "dynamo", "kubernetes"} }

// rewrite reports whether the test must write the files in testdata again.
func rewrite() bool { return flag.Lookup("rewrite").Value.String() == "true" }

func TestMain(m *testing.M) {
	flag.Bool("rewrite", false, "make the files of testdata anew")
	flag.Parse()
	os.Exit(m.Run())
}

// TestFiles checks that the output equals testdata. The target make launch checks testdata with the parsers of the
// engines and the types of Kubernetes.
func TestFiles(t *testing.T) {
	for name, c := range cases() {
		for _, target := range targetsOf(c) {
			out, err := Write(target, c)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range out.Files {
				path := filepath.Join("testdata", name+"."+file.Name)
				if rewrite() {
					if err := os.WriteFile(path, []byte(file.Text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if want, err := os.ReadFile(path); err != nil || string(want) != file.Text {
					t.Errorf("%s differs (%v): go test ./replay/deployment/launch -rewrite makes it anew", path, err)
				}
			}
			for _, text := range out.Missing {
				if !strings.Contains(out.Files[0].Text, "# Not expressed: "+text+"\n") {
					t.Errorf("%s for %s: %s stands in no comment", name, target, text)
				}
			}
		}
	}
}

// TestCommandsHaveTheSettings checks that the start commands, when read again, have exactly the settings that were to
// be written. TestReadsWhatIsEmitted in cmd/replay/machines checks that the other targets read the same.
func TestCommandsHaveTheSettings(t *testing.T) {
	for name, c := range cases() {
		out, err := Write(c.Engine, c)
		if err != nil {
			t.Fatal(err)
		}
		commands := deployment.ReadCommands(out.Files[0].Text)
		if len(commands) != len(c.Pools) {
			t.Fatalf("%s: %d commands, want one for each of %d pools", name, len(commands), len(c.Pools))
		}
		for i := range commands {
			config := map[string]string{}
			if files := out.Files[1:]; len(files) > 0 { // one for all pools, or one for each pool
				config = flattenText(files[min(i, len(files)-1)].Text)
			}
			got, err := commands[i].Flags(config)
			if err != nil {
				t.Fatal(err)
			}
			want := maps.Clone(c.Pools[i].Settings)
			want["engine"], want["model"] = c.Engine, c.Model
			if c.Engine == "trtllm" && c.Pools[i].Role == "prefill" {
				want["disable-overlap-scheduler"] = "true"
			}
			if c.Engine == "trtllm" && c.Pools[i].Role != "" && c.Router == "kv" {
				want["event-buffer-max-size"] = "1024"
			}
			if !maps.Equal(got, want) || c.Engine == "sglang" && commands[i].Role != c.Pools[i].Role {
				t.Errorf("%s, pool %d:\n got %v %q\nwant %v %q", name, i, got, commands[i].Role, want, c.Pools[i].Role)
			}
		}
	}
}

// flattenText returns the settings of a file. The names of the settings have dots between objects.
func flattenText(text string) map[string]string {
	all, object := map[string]string{}, ""
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case strings.HasSuffix(name, ":"):
			object = strings.TrimSuffix(name, ":") + "."
		case strings.HasPrefix(line, " "):
			all[object+name] = value
		default:
			all[name] = value
		}
	}
	return all
}

// TestNoSettingIsLost checks that every setting of an engine changes the output, as an argument or as a missing one.
// Settings of the simulation are excepted.
func TestNoSettingIsLost(t *testing.T) {
	for _, engine := range []string{"vllm", "sglang", "trtllm"} {
		c := cases()[engine]
		before, err := Write(engine, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rowsInOrder() {
			if r.Flag == "" || isSimulated(r.Flag) || r.Only != "" && r.Only != engine || r.Flag == "speculative-config" {
				continue
			}
			value := map[schema.Kind]string{schema.Int: "7", schema.Real: "0.55", schema.Limit: "7", schema.Factor: "0.55", schema.Bool: strconv.FormatBool(r.Preset() == "false"), schema.Object: `{"a":1}`, schema.Path: "x"}[r.Kind]
			if r.Kind == schema.Name {
				names := slices.DeleteFunc(slices.Clone(r.Names), func(name string) bool { return strings.HasPrefix(r.Preset(), name) || name == "bfloat16" })
				value = names[0]
			}
			own := *c
			own.Pools = []Pool{{Workers: c.Pools[0].Workers, Settings: maps.Clone(c.Pools[0].Settings)}}
			own.Pools[0].Settings[r.Flag] = value
			after, err := Write(engine, &own)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Equal(after.Files, before.Files) {
				t.Errorf("%s: %s %s is in no file, and not among what is missing", engine, r.Flag, value)
			}
		}
	}
}

// TestMissing checks that the output names what a target does not support: engine settings without an argument, and
// policies that a router does not have.
func TestMissing(t *testing.T) {
	c := cases()["vllm"]
	c.Pools[0].Settings = maps.Clone(c.Pools[0].Settings)
	c.Pools[0].Settings["preemption-mode"] = "fifo"
	c.Pools[0].Settings["quantization"] = "nvfp4"
	c.Router, c.Pools[0].Nodes = "least-loaded", 2
	out, err := Write("vllm", c)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"preemption-mode fifo: ", "quantization nvfp4: ", "router least-loaded: ", "spans 2 nodes"} {
		if !slices.ContainsFunc(out.Missing, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("%q is not said in %q", want, out.Missing)
		}
	}
	if _, err := Write("sglang", c); err == nil || !strings.Contains(err.Error(), "--engine sglang") {
		t.Errorf("a plan of vLLM as commands of SGLang: %v", err)
	}
}
