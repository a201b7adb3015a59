package machines

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readEmitted returns the output of init for a file that a plan has emitted. The file keeps its name, in a folder
// with its settings file.
func readEmitted(t *testing.T, path string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	name, target, _ := strings.Cut(filepath.Base(path), ".")
	for _, file := range []string{target, "trtllm.yaml", "prefill-trtllm.yaml", "decode-trtllm.yaml"} {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(path), name+"."+file))
		if err != nil && file == target {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := &initFlags{from: filepath.Join(dir, target)}
	known, _, err := f.readStart()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return known
}

// The log of a TensorRT-LLM server has its KV blocks, first those of a trial pass.
func TestReadsTRTLLMLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.log")
	text := "[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 65 [window size=2051], tokens per block=32, primary blocks=66, secondary blocks=0\n" +
		"[TensorRT-LLM][INFO] Number of tokens per block: 32.\n" +
		"[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 65 [window size=2051], tokens per block=32, primary blocks=116617, secondary blocks=0\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &initFlags{from: path}
	known, title, err := f.readSource()
	want := map[string]string{"engine": "trtllm", "block-size": "32", "num-gpu-blocks": "116617"}
	if err != nil || !maps.Equal(known, want) || !strings.Contains(title, "TensorRT-LLM") {
		t.Errorf("%v, %s, %v", known, title, err)
	}
}

// Start commands, Kubernetes manifests and Dynamo graphs of one cluster give the same settings.
func TestReadsWhatIsEmitted(t *testing.T) {
	scripts, err := filepath.Glob("../../../replay/deployment/launch/testdata/*.sh")
	if err != nil || len(scripts) < 5 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, path := range scripts {
		if strings.Contains(path, "-uneven.") {
			continue // a deployment file is of servers that are alike
		}
		name := filepath.Join(filepath.Dir(path), strings.SplitN(filepath.Base(path), ".", 2)[0])
		want := readEmitted(t, path)
		if want["model"] == "" || want["tp"] == "" {
			t.Errorf("%s: %v, want the model and how it is divided at least", path, want)
		}
		for _, target := range []string{".kubernetes.yaml", ".dynamo.yaml"} {
			if target == ".dynamo.yaml" { // Dynamo lacks one of the settings, and sets another by itself
				delete(want, "schedule-low-priority-values-first")
				delete(want, "event-buffer-max-size")
			}
			if got := readEmitted(t, name+target); !maps.Equal(got, want) {
				t.Errorf("%s%s:\n got %v\nwant %v", name, target, got, want)
			}
		}
	}
}
