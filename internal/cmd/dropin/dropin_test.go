package dropin

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// ownFlags returns flags of replay vllm and replay sglang for the tests.
func ownFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"fleet", "faults", "gpu", "speedup-ratio"} {
		fs.String(name, "", "")
	}
	fs.Bool("insecure", false, "")
	return fs
}

// recorded returns the recorded flags of an engine with the number of values of each flag.
func recorded(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, values, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = values
	}
	return all
}

// The tables have a class and the number of values for every flag of vLLM and SGLang. All other flags in the tables
// belong to older releases.
func TestEveryFlagHasAClass(t *testing.T) {
	for file, table := range map[string]string{"vllm-0.33.0.txt": vllmFlags, "sglang-0.5.23.txt": sglangFlags} {
		now, older, _ := strings.Cut(table, "# Flags of older releases.\n")
		want, got := recorded(t, file), parseFlags(now)
		if len(want) < 400 {
			t.Errorf("%s: %d flags are recorded", file, len(want))
		}
		for name, values := range want {
			if got[name].values != values {
				t.Errorf("%s: %s takes %q values in the table, want %s", file, name, got[name].values, values)
			}
		}
		for name, f := range parseFlags(table) {
			if _, ok := want[name]; ok == strings.Contains(older, name+" ") && f.class != "use" && !ok {
				t.Errorf("%s: %s is no flag of the parser", file, name)
			}
			if !slices.Contains([]string{"use", "only", "pass", "refuse"}, f.class) || f.class != "pass" && f.text == "" {
				t.Errorf("%s: %s: class %q with text %q", file, name, f.class, f.text)
			}
		}
	}
}

// The recorded flags equal the flags of the wheels.
func TestRecordedFlagsAreThoseOfTheWheels(t *testing.T) {
	for _, engine := range []string{"vllm-0.33.0", "sglang-0.5.23"} {
		t.Run(engine, func(t *testing.T) {
			name, release, _ := strings.Cut(engine, "-")
			caches, err := os.UserCacheDir()
			home := cmp.Or(os.Getenv("REPLAY_"+strings.ToUpper(name)+"_HOME"), filepath.Join(caches, "replay-"+name))
			site, _ := filepath.Glob(filepath.Join(home, release, "lib", "python3*", "site-packages"))
			if len(site) == 0 {
				t.Skipf("skipped: tools/%soracle/run has not installed the wheel in %s (%v)", name, home, err)
			}
			out, err := exec.Command("python3", filepath.Join("testdata", "record.py"), name, site[0]).Output()
			if err != nil {
				t.Fatal(err)
			}
			if want, err := os.ReadFile(filepath.Join("testdata", engine+".txt")); err != nil || string(out) != string(want) {
				t.Errorf("the wheel has other flags: record them anew (%v)", err)
			}
		})
	}
}

// Command lines of public Kubernetes manifests are converted. The manifests are from vLLM's guide, the Gateway API
// inference extension (gpu-deployment.yaml) and SGLang (k8s-sglang-service.yaml).
func TestManifests(t *testing.T) {
	for _, test := range []struct{ engine, line, want, warnings string }{
		{
			"vllm", "mistralai/Mistral-7B-Instruct-v0.3 --trust-remote-code --enable-chunked-prefill --max_num_batched_tokens 1024",
			"--enable-chunked-prefill=true --max-num-batched-tokens=1024 --served-model-name=mistralai/Mistral-7B-Instruct-v0.3",
			"mistralai/Mistral-7B-Instruct-v0.3 is no model that replay models lists: passes take the built-in times; no effect on a simulated engine: --trust-remote-code",
		},
		{
			"vllm", "--model Qwen/Qwen3-32B --tensor-parallel-size 1 --port 8000 --max-num-seq 1024 --enable-lora --max-loras 2 --max-lora-rank 8 --max-cpu-loras 12",
			"--tp=1 --port=8000 --max-num-seqs=1024 --enable-lora=true --max-loras=2 --served-model-name=Qwen/Qwen3-32B --model=Qwen/Qwen3-32B --gpu=h100 --max-model-len=40960",
			"--gpu is not set: the engine is simulated on h100; no effect on a simulated engine: --max-lora-rank, --max-cpu-loras",
		},
		{
			"sglang", "--model-path meta-llama/Meta-Llama-3.1-8B-Instruct --host 0.0.0.0 --port 30000",
			"--host=0.0.0.0 --port=30000 --served-model-name=meta-llama/Meta-Llama-3.1-8B-Instruct --model=meta-llama/Meta-Llama-3.1-8B-Instruct --gpu=h100 --context-length=131072",
			"--gpu is not set: the engine is simulated on h100",
		},
	} {
		line, err := Translate(test.engine, strings.Fields(test.line), ownFlags())
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		if got := strings.Join(line.Args, " "); got != test.want {
			t.Errorf("%s\nbecomes %s\nwant    %s", test.line, got, test.want)
		}
		if got := strings.Join(line.Warnings, "; "); got != test.warnings {
			t.Errorf("%s\nwarns %s\nwant  %s", test.line, got, test.warnings)
		}
	}
}

// Values are parsed like in vLLM. Flags of replay are unchanged. Errors name the flag and the reason.
func TestTranslate(t *testing.T) {
	for line, want := range map[string]string{
		"m/x -tp=2 -O3 --max-model-len 32k":                                  "--max-model-len=32000 --served-model-name=m/x",
		"m/x --max-model-len=32K --speedup-ratio 5":                          "--max-model-len=32768 --speedup-ratio=5 --served-model-name=m/x",
		"m/x --served-model-name a b --api-key k1 k2 --fleet=2":              "--served-model-name=a,b --api-key=k1,k2 --fleet=2",
		"m/x --lora-modules sql=/a chat=/b --shutdown-timeout 7":             "--lora-modules=sql,chat --grace=7s --served-model-name=m/x",
		"m/x --compilation-config.mode 3 --no-enable-prefix-caching":         "--enable-prefix-caching=false --served-model-name=m/x",
		"m/x --nnodes 1 --tokenizer a/tokenizer.json --disable-log-requests": "--tokenizer=a/tokenizer.json --served-model-name=m/x",
	} {
		got, err := Translate("vllm", strings.Fields(line), ownFlags())
		if err != nil || strings.Join(got.Args, " ") != want {
			t.Errorf("%s: %v, %v, want %s", line, got, err, want)
		}
	}
	for line, want := range map[string]string{
		"m --uds /x":           "--uds: not supported: a server listens at TCP ports only",
		"m --nnodes 2":         "--nnodes=2: must be 1: a server is one process",
		"m --runner pooling":   "--runner=pooling: must be auto or generate: pooling models are not served",
		"m --tensor-paralel 2": "--tensor-paralel: no flag of vllm serve or of replay vllm",
		"m n":                  "n: the model is m already", "m --port": "--port: requires a value", "nowhere/model --gpu h100": "nowhere/model",
	} {
		if _, err := Translate("vllm", strings.Fields(line), ownFlags()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	if _, err := Translate("sglang", nil, ownFlags()); err == nil || !strings.Contains(err.Error(), "--model-path: requires a value") {
		t.Errorf("SGLang without a model: %v", err)
	}
}
