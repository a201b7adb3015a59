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

// A step's time by hand: 10 ms to read weights and as much to multiply.
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

// Models that know nothing of whole passes time their two parts.
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

// What is written is read again; what makes no sense is refused by name.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "p.json")
	p := Profile{Version: ProfileVersion, Form: "x", Parameters: Parameters{Weights: 1e-2, Graphs: []int{1, 2}}, Trusted: &Trusted{Tokens: Range{1, 2}}}
	var text bytes.Buffer
	if err := errors.Join(p.Write(&text), os.WriteFile(path, text.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	m, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.(*Parameters); got.Weights != 1e-2 || len(got.Graphs) != 2 {
		t.Errorf("read again: %+v", got)
	}
	for _, c := range []struct{ text, want string }{
		{`{"version":2}`, "version is 2, want 1"},
		{`{"version":1}`, "want one of them above 0"},
		{`{"version":1,"parameters":{"weights_s":-1}}`, "weights_s is -1"},
		{`{"version":1,"parameters":{"weights_s":1,"knee":3}}`, "knee is 3"},
		{`{"version":1,"parameters":{"weights_s":1,"graph_sizes_tokens":[2,2]}}`, "graph_sizes_tokens[1] is 2"},
		{`[]`, "want a timing profile as JSON, or an .npz file"},
		{``, "want a timing profile"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := Load(filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a missing file: %v", err)
	}
}

// 16.06 GB of weights at 3.35 TB/s take 4.8 ms, and 1.3 times as long in
// practice.
func TestRoofline(t *testing.T) {
	for _, name := range []string{"h100/llama-3.1-8b", "h100/meta-llama/Llama-3.1-8B", "NVIDIA H100 80GB HBM3/Llama-3.1-8B-Instruct", "h100/llama-3.1-8b/tp1"} {
		m, err := Load("roofline:" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.(*Parameters).Weights; math.Abs(got-1.3*16.06e9/3.35e12) > 1e-12 {
			t.Errorf("%s: %v s to read the weights", name, got)
		}
	}
	one, _ := Load(RooflinePath("h100", "llama-3.1-70b", 1))
	four, err := Load(RooflinePath("h100", "llama-3.1-70b", 4))
	if err != nil || four.(*Parameters).Weights*4 != one.(*Parameters).Weights {
		t.Errorf("on 4 GPUs: %+v, %v", four, err)
	}
	m, _ := FindLLM("llama-3.1-8b")
	if got := m.KVBytesPerToken(); got != 131072 {
		t.Errorf("%d bytes of KV cache per token, want 131072", got)
	}
	for _, c := range []struct{ name, want string }{
		{"h1", "want roofline:GPU/MODEL"}, {"h1/llama-3.1-8b", `GPU is "h1", want one of a100`},
		{"h100/gpt", `model is "gpt", want one of llama-3.1-8b`}, {"h100/llama-3.1-8b/tpx", "tpx, want tp and a number"},
	} {
		if _, err := Load("roofline:" + c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
