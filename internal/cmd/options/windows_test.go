package options

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/replay-llm/replay/calibrate"
	"github.com/replay-llm/replay/calibrate/measured"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// kvTokens returns the size of the KV cache of a worker in tokens, for settings NAME=VALUE.
func kvTokens(t *testing.T, file string, settings ...string) int {
	t.Helper()
	a := engineOf(t, file, settings...)
	return a.Blocks * a.BlockTokens
}

// engineOf returns the engine arguments of a worker, for settings NAME=VALUE.
func engineOf(t *testing.T, file string, settings ...string) engineargs.Args {
	t.Helper()
	all := []plan.Setting{{Name: "gpu", Value: "h200"}}
	for _, text := range settings {
		name, value, _ := strings.Cut(text, "=")
		all = append(all, plan.Setting{Name: name, Value: value})
	}
	o, _, mode, err := OptionsOf(all)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := o.Spec(file, mode)
	if err != nil {
		t.Fatal(err)
	}
	return spec.Entry().Engine
}

// With vLLM's own rules, layers are in groups, and the number of blocks does not depend on the workload. The 52
// layers with windows and 10 layers without windows form seven groups of up to 10 layers.
func TestWindowGroups(t *testing.T) {
	const gemma = "model=gemma-3-27b"
	short := kvTokens(t, "", gemma, "input-tokens=900", "output-tokens=200", "request-count=10")
	if long := kvTokens(t, "", gemma, "input-tokens=100000", "output-tokens=200", "request-count=10"); short != long {
		t.Errorf("%d tokens of 1,000, %d of 100,000, want as many", short, long)
	}
	if per := 71.2 * (1 << 30) / float64(short); per < 81_000 || per > 83_000 { // keys and values of 10 layers with 16 heads of 128 values in bfloat16
		t.Errorf("%.0f bytes a place of a token, want those of 10 layers", per)
	}
	// Llama 4 has 36 chunked layers and 12 other layers. Gemma 2 has as many layers with windows as without windows.
	for model, want := range map[string]vllm.Windows{
		"gemma-3-27b": {Tokens: 1024, Groups: 6, Full: 1}, "gemma-2-9b": {Tokens: 4096, Groups: 1, Full: 1}, "gpt-oss-20b": {Tokens: 128, Groups: 1, Full: 1},
		"llama-4-scout": {Tokens: 8192, Chunked: true, Groups: 3, Full: 1}, "llama-3.1-8b": {},
	} {
		if got := engineOf(t, "", "model="+model, "tp=2", "input-tokens=900", "output-tokens=2", "request-count=1").Windows; got != want {
			t.Errorf("%s: %+v, want %+v", model, got, want)
		}
	}
}

// Without groups, layers with windows cache nearly all tokens of short sequences. A pool therefore holds fewer tokens
// of short sequences than of long sequences. A request that fits alone always has enough blocks.
func TestWindowsOfWorkload(t *testing.T) {
	const gemma, profile = "model=gemma-3-27b", "scheduler-profile=reference"
	made := func(input int) []string {
		return []string{gemma, profile, fmt.Sprintf("input-tokens=%d", input), "output-tokens=200", "request-count=10"}
	}
	short, long, unknown := kvTokens(t, "", made(900)...), kvTokens(t, "", made(100_000)...), kvTokens(t, "-", gemma, profile)
	if !(float64(short) < 0.25*float64(unknown) && long > 4*short && float64(long) < 1.4*float64(unknown)) {
		t.Errorf("%d tokens of 1,000, %d of 100,000, %d of the longest: want a fifth, and about as many", short, long, unknown)
	}
	// Keys and values of 62 layers with 16 heads of 128 values in bfloat16. 1,000 tokens are shorter than every
	// window.
	if per := 71.2 * (1 << 30) / float64(short); per < 480_000 || per > 520_000 {
		t.Errorf("%.0f bytes a token, want those of all 62 layers", per)
	}
	trace := filepath.Join(t.TempDir(), "a.csv")
	lines := "TIMESTAMP,ContextTokens,GeneratedTokens\n" + strings.Repeat("2023-11-16 18:15:46.6805900,500,300\n", 500) + "2023-11-16 18:15:47.0000000,300000,2\n"
	if err := os.WriteFile(trace, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := kvTokens(t, trace, gemma, profile); got < 300_002 || got > 300_300 {
		t.Errorf("%d tokens beside a request of 300,002, want room for it", got)
	}
	for _, settings := range [][]string{{"model=llama-3.1-8b"}, {gemma, "num-gpu-blocks=100"}} {
		of := append([]string{"input-tokens=900", "output-tokens=200", "request-count=10"}, settings...)
		if a, b := kvTokens(t, "", of...), kvTokens(t, "-", settings...); a != b {
			t.Errorf("%v: %d tokens for a workload, %d without one, want the same", settings, a, b)
		}
	}
}

// The lengths of a measured run also determine the KV cache size of its server.
func TestWindowsOfMeasuredRun(t *testing.T) {
	o, _, _, err := OptionsOf([]plan.Setting{{Name: "gpu", Value: "h200"}, {Name: "model", Value: "gemma-3-27b"}, {Name: "scheduler-profile", Value: "reference"}})
	if err != nil {
		t.Fatal(err)
	}
	m := &calibrate.Measured{Run: measured.Run{Requests: []measured.Request{{Input: 900, Output: 200}, {Input: 900, Output: 200}}}}
	spec, trace, _, err := o.MeasuredSpec(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := spec.Entry().Engine
	want := kvTokens(t, "", "model=gemma-3-27b", "scheduler-profile=reference", "input-tokens=900", "output-tokens=200", "request-count=2")
	if got := a.Blocks * a.BlockTokens; got != want || strings.Count(trace.String(), "\n") != 2 {
		t.Errorf("%d tokens, want %d as for the same requests without times; trace\n%s", got, want, trace)
	}
}
