package timing

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The time of a step is computed by hand: 10 ms to read the weights and 10 ms to multiply.
func TestParameters(t *testing.T) {
	p := Parameters{Base: 1e-3, Weights: 10e-3, Token: 1e-3, Pair: 1e-6, Request: 1e-3, Context: 1e-6, Mixed: 2e-6, MixedBase: 5e-3, Graphs: []int{4, 10}}
	for _, c := range []struct {
		knee int
		step Step
		want float64
	}{
		{1, Step{Tokens: 7, Requests: 2, Context: 1000}, 1 + 20 + 2 + 1},
		{2, Step{Tokens: 10, Requests: 2, Context: 1000}, 1 + 10*math.Sqrt2 + 2 + 1},
		{4, Step{Tokens: 10, Requests: 2, Context: 1000, Pairs: 3000}, 1 + 10*math.Sqrt(math.Sqrt2) + 2 + 2 + 3 + 5},
		{0, Step{Tokens: 10, Requests: 2, Context: 1000, Pairs: 3000}, 1 + 10*math.Sqrt(math.Sqrt2) + 2 + 2 + 3 + 5},
		{1, Step{Tokens: 12}, 1 + 22},
	} {
		p.Knee = c.knee
		if got := p.Step(&c.step); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("knee %d, %+v: %v ms, want %v", c.knee, c.step, got, c.want)
		}
	}
	if got, want := p.Decode(10, 0, 100, 0), p.Step(&Step{Tokens: 10, Requests: 10, Context: 1000}); got != want {
		t.Errorf("decode of 10 requests: %v ms, want %v", got, want)
	}
	if got, want := p.Prefill(2, 50, 10), p.Step(&Step{Tokens: 80, Requests: 2, Pairs: 80 * 30}); got != want {
		t.Errorf("prefill of 2 prompts: %v ms, want %v", got, want)
	}
}

// Models that do not time whole passes time the prefill and decode parts.
func TestStepOfOtherModels(t *testing.T) {
	c := Clock{Model: Polynomial{}, Speedup: 2, DecodeSpeedup: 1}
	s := Step{Prompts: 2, PromptReached: 300, PromptBefore: 100, Decodes: 3, DecodeLength: 600, Active: 640, Capacity: 6400, Pairs: 1}
	prefill, err := c.Prefill(2, 150, 50)
	if err != nil {
		t.Fatal(err)
	}
	decode, err := c.Decode(3, 640, 200, 6400)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Step(&s); err != nil || got != prefill+decode {
		t.Errorf("%v ms, %v; want %v + %v", got, err, prefill, decode)
	}
	c.Model = &Parameters{Base: 1}
	if got, err := c.Step(&s); err != nil || got != 500 {
		t.Errorf("%v ms, %v; want 1 s at twice the speed", got, err)
	}
}

func TestDefaultGraphs(t *testing.T) {
	got := DefaultGraphs(256)
	if len(got) != 51 || got[0] != 1 || got[3] != 8 || got[len(got)-1] != 512 || !slices.Contains(got, 272) || slices.Contains(got, 264) {
		t.Errorf("%d sizes: %v", len(got), got)
	}
	if got := DefaultGraphs(12); got[len(got)-1] != 24 {
		t.Errorf("for 12 requests: %v", got)
	}
}

// A written profile can be read again. Invalid values are rejected by name.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.json")
	p := Profile{Version: ProfileVersion, Form: "x", Parameters: Parameters{Weights: 1e-2, Graphs: []int{1, 2}}, Trusted: &Trusted{Tokens: Range{1, 2}}}
	var text bytes.Buffer
	if err := errors.Join(p.Write(&text), os.WriteFile(path, text.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	m, err := ParseSource(path).Load()
	if err != nil {
		t.Fatal(err)
	}
	if got := m.(*Parameters); got.Weights != 1e-2 || len(got.Graphs) != 2 {
		t.Errorf("read again: %+v", got)
	}
	for _, c := range []struct{ text, want string }{
		{`{"version":2}`, "version is 2, must be 1"},
		{`{"version":1}`, "must be one of them above 0"},
		{`{"version":1,"parameters":{"weights_s":-1}}`, "weights_s is -1"},
		{`{"version":1,"parameters":{"weights_s":1,"knee":3}}`, "knee is 3"},
		{`{"version":1,"parameters":{"weights_s":1,"graph_sizes_tokens":[2,2]}}`, "graph_sizes_tokens[1] is 2"},
		{`[]`, "must be a timing profile as JSON, or an .npz file"},
		{``, "must be a timing profile"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSource(path).Load(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := ParseSource(filepath.Join(dir, "none")).Load(); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a missing file: %v", err)
	}
}

// The weights of 15.01 GB, without the embedding table, are read at 85 % of 3.35 TB/s.
func TestRoofline(t *testing.T) {
	for _, name := range []string{"h100/llama-3.1-8b", "h100/meta-llama/Llama-3.1-8B", "NVIDIA H100 80GB HBM3/Llama-3.1-8B-Instruct", "h100/llama-3.1-8b/tp1", "h100/llama-3.1-8b?tp=1"} {
		m, err := ParseSource("roofline:" + name).Load()
		if err != nil {
			t.Fatal(err)
		}
		if got := m.(*Parameters).Weights; math.Abs(got-15.01e9/(0.85*3.35e12)) > 1e-5 {
			t.Errorf("%s: %v s to read the weights", name, got)
		}
	}
	load := func(name string) *Parameters {
		m, err := ParseSource("roofline:" + name).Load()
		if err != nil {
			t.Fatal(err)
		}
		return m.(*Parameters)
	}
	one, four := load("h100/llama-3.1-70b"), load("h100/llama-3.1-70b?tp=4")
	if four.Weights*4 != one.Weights || one.Network != 0 || !(four.Network > 0) || !(four.Base > one.Base) {
		t.Errorf("on 4 GPUs: %+v, on one: %+v", four, one)
	}
	if slow := load("l40s/llama-3.1-70b?tp=4"); !(slow.Base > four.Base) || !(slow.Network > 5*four.Network) {
		t.Errorf("over PCIe: %+v, over NVLink: %+v", slow, four)
	}
	if eager := load("h100/llama-3.1-70b?graphs=none"); math.Abs(eager.Base-one.Base-80*50e-6) > 1e-12 || eager.Graphs != nil || one.Graphs == nil {
		t.Errorf("without graphs: %+v", eager)
	}
	if fp8 := load("h100/llama-3.1-70b?weights=fp8&kv=fp8"); fp8.Context*2 != one.Context || !(fp8.Weights < 0.52*one.Weights) || !(fp8.Token < 0.52*one.Token) {
		t.Errorf("with 8 bits: %+v, with 16: %+v", fp8, one)
	}
	if stages := load("h100/llama-3.1-70b?pp=4"); stages.Weights != one.Weights || math.Abs(stages.Token*4-one.Token) > 1e-15 {
		t.Errorf("in stages: %+v, in one: %+v", stages, one)
	}
	gathered, sent := load("h100/qwen3-235b-a22b?dp=16"), load("h100/qwen3-235b-a22b?dp=16&ep=16")
	if !(sent.Network < 0.6*gathered.Network) || sent.Experts != gathered.Experts || !(sent.Network > 0) {
		t.Errorf("all-to-all %+v, all-gather %+v", sent, gathered)
	}
	for _, c := range []struct{ name, want string }{
		{"h1", "must be GPU/MODEL"}, {"h1/llama-3.1-8b", `GPU is "h1", which is unknown`},
		{"h100/gpt", `model is "gpt", which is unknown`}, {"h100/llama-3.1-8b/tpx", "tpx, expected tp and a number"},
		{"h100/llama-3.1-8b?tp=0", "tp: 0, must be 1 to 1024"}, {"h100/llama-3.1-8b?weights=fp9", `weights: "fp9", must be one of auto`},
		{"h100/llama-3.1-8b?speed=2", "speed: an unknown key"},
	} {
		if _, err := ParseSource("roofline:" + c.name).Load(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// A pass reads the experts that its tokens are sent to: few more than the experts of one token at first, nearly all
// in the end.
func TestExpertsTouched(t *testing.T) {
	p := &Parameters{Weights: 1e-9, Experts: 0.008, ExpertShare: 0.125, Knee: 1}
	for tokens, share := range map[int]float64{1: 0.125, 2: 0.234375, 8: 0.656391, 64: 0.999806} {
		if got := p.Step(&Step{Tokens: tokens}); math.Abs(got-8*share) > 1e-4 {
			t.Errorf("%d tokens read %v ms of experts, want %v", tokens, got, 8*share)
		}
	}
	for _, bad := range []Parameters{{Weights: 1, Experts: -1}, {Weights: 1, ExpertShare: 2}, {Weights: 1, Network: math.NaN()}} {
		if bad.check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// The number of GPUs is derived from the source of the pass times.
func TestGPUs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profile.json")
	text := `{"form":"x","version":1,"parameters":{"weights_s":1},"engine":{"gpu":"NVIDIA H100","tensor_parallel_size":2}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]int{"": 1, "table.npz": 1, "roofline:h100/llama-3.1-70b?tp=4&pp=2&dp=3": 24, path: 2} {
		if got, _, err := ParseSource(from).GPUs(); err != nil || got != want {
			t.Errorf("%q: %d GPUs, %v, want %d", from, got, err, want)
		}
	}
	if _, price, _ := ParseSource(path).GPUs(); price != 2.5 {
		t.Errorf("an H100 costs %v", price)
	}
}
