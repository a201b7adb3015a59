package timing

import (
	"fmt"
	"strconv"
	"strings"
)

// RooflinePrefix begins the path of a model that no file holds.
const RooflinePrefix = "roofline:"

// RooflinePath returns the path by which Load finds that model on that GPU.
func RooflinePath(gpu, model string, tensorParallel int) string {
	path := RooflinePrefix + gpu + "/" + model
	if tensorParallel > 1 {
		path += "/tp" + strconv.Itoa(tensorParallel)
	}
	return path
}

// GPU is a GPU as its data sheet has it. docs/calibration.md has the sources.
type GPU struct {
	Name      string
	FLOPs     float64 // FLOP/s of dense bfloat16 products with float32 sums
	Bandwidth float64 // bytes/s of its memory
	Memory    float64 // bytes
}

// GPUs returns the GPUs whose numbers are known.
func GPUs() []GPU {
	return []GPU{
		{"a100-40gb", 312e12, 1.555e12, 40e9},
		{"a100", 312e12, 2.039e12, 80e9},
		{"a10g", 70e12, 600e9, 24e9},
		{"l4", 121e12, 300e9, 24e9},
		{"l40s", 362e12, 864e9, 48e9},
		{"h100", 989e12, 3.35e12, 80e9},
		{"h100-pcie", 756e12, 2.0e12, 80e9},
		{"h200", 989e12, 4.8e12, 141e9},
		{"b200", 2250e12, 8.0e12, 180e9},
		{"rtx4090", 165e12, 1.008e12, 24e9},
		{"rtx5090", 210e12, 1.792e12, 32e9},
		{"rtxpro6000", 500e12, 1.792e12, 96e9},
		{"mi300x", 1307e12, 5.3e12, 192e9},
	}
}

// LLM is the shape of a model.
type LLM struct {
	Name       string
	Params     float64 // all weights
	Active     float64 // weights that a token is multiplied with
	Layers     int
	Heads      int // query heads
	KVHeads    int
	HeadSize   int
	WeightByte float64 // bytes per weight
	// Latent, when not 0, is the number of values that a token keeps per layer
	// instead of keys and values of each head.
	Latent int
}

// KVBytesPerToken returns the bytes of a token in the KV cache, two per value.
func (m *LLM) KVBytesPerToken() int {
	if m.Latent > 0 {
		return 2 * m.Layers * m.Latent
	}
	return 4 * m.Layers * m.KVHeads * m.HeadSize
}

// LLMs returns the models whose shapes are known.
func LLMs() []LLM {
	return []LLM{
		{Name: "llama-3.1-8b", Params: 8.03e9, Active: 8.03e9, Layers: 32, Heads: 32, KVHeads: 8, HeadSize: 128, WeightByte: 2},
		{Name: "llama-3.1-70b", Params: 70.6e9, Active: 70.6e9, Layers: 80, Heads: 64, KVHeads: 8, HeadSize: 128, WeightByte: 2},
		{Name: "llama-3.2-1b", Params: 1.24e9, Active: 1.24e9, Layers: 16, Heads: 32, KVHeads: 8, HeadSize: 64, WeightByte: 2},
		{Name: "llama-3.2-3b", Params: 3.21e9, Active: 3.21e9, Layers: 28, Heads: 24, KVHeads: 8, HeadSize: 128, WeightByte: 2},
		{Name: "qwen2.5-7b", Params: 7.62e9, Active: 7.62e9, Layers: 28, Heads: 28, KVHeads: 4, HeadSize: 128, WeightByte: 2},
		{Name: "qwen2.5-32b", Params: 32.8e9, Active: 32.8e9, Layers: 64, Heads: 40, KVHeads: 8, HeadSize: 128, WeightByte: 2},
		{Name: "qwen3-8b", Params: 8.19e9, Active: 8.19e9, Layers: 36, Heads: 32, KVHeads: 8, HeadSize: 128, WeightByte: 2},
		{Name: "qwen3-32b", Params: 32.8e9, Active: 32.8e9, Layers: 64, Heads: 64, KVHeads: 8, HeadSize: 128, WeightByte: 2},
		{Name: "qwen3-30b-a3b", Params: 30.5e9, Active: 3.3e9, Layers: 48, Heads: 32, KVHeads: 4, HeadSize: 128, WeightByte: 2},
		{Name: "mixtral-8x7b", Params: 46.7e9, Active: 12.9e9, Layers: 32, Heads: 32, KVHeads: 8, HeadSize: 128, WeightByte: 2},
		{Name: "mistral-7b", Params: 7.25e9, Active: 7.25e9, Layers: 32, Heads: 32, KVHeads: 8, HeadSize: 128, WeightByte: 2},
		{Name: "deepseek-v3", Params: 671e9, Active: 37e9, Layers: 61, Heads: 128, KVHeads: 128, HeadSize: 128, WeightByte: 1, Latent: 576},
	}
}

// Roofline returns the profile of a model on tensorParallel GPUs by their data
// sheets: a place to start from when nothing has been measured. Communication
// between the GPUs is not in it.
func Roofline(g GPU, m LLM, tensorParallel int) Profile {
	n := float64(tensorParallel)
	weights, active := m.Params*m.WeightByte/n, m.Active/n
	kv := float64(m.KVBytesPerToken()) / n
	query := float64(m.Layers) * float64(m.Heads*m.HeadSize) / n
	context := kv / (0.85 * g.Bandwidth)
	return Profile{
		Form: "roofline", Version: ProfileVersion,
		Source: fmt.Sprintf("data sheets of %s and %s, %d GPUs: nothing was measured", g.Name, m.Name, tensorParallel),
		Parameters: Parameters{
			Weights: 1.3 * weights / g.Bandwidth,
			Token:   2 * active / (0.75 * g.FLOPs),
			Pair:    4 * query / (0.4 * g.FLOPs),
			Context: context, Mixed: 1.5 * context,
		},
	}
}

// parseRoofline returns the model of a path without its prefix.
func parseRoofline(path string) (Profile, error) {
	gpu, model, ok := strings.Cut(path, "/")
	if !ok {
		return Profile{}, fmt.Errorf("%s%s: want %sGPU/MODEL", RooflinePrefix, path, RooflinePrefix)
	}
	n := 1
	if i := strings.LastIndex(model, "/tp"); i >= 0 {
		var err error
		if n, err = strconv.Atoi(model[i+3:]); err != nil || n < 1 || n > 1024 {
			return Profile{}, fmt.Errorf("%s%s: %s, want tp and a number of GPUs", RooflinePrefix, path, model[i+1:])
		}
		model = model[:i]
	}
	g, err := FindGPU(gpu)
	if err != nil {
		return Profile{}, err
	}
	m, err := FindLLM(model)
	if err != nil {
		return Profile{}, err
	}
	return Roofline(g, m, n), nil
}

// plainName returns a name without what makers add to it, for comparisons.
func plainName(name string) string {
	name = strings.ToLower(name[strings.LastIndex(name, "/")+1:])
	for _, noise := range []string{"nvidia", "geforce", "amd", "meta-", "-instruct", "tensor core gpu", "80gb", "hbm3", "sxm4", "sxm5", "sxm", "blackwell", "workstation edition", "server edition", " ", "-", "_"} {
		name = strings.ReplaceAll(name, noise, "")
	}
	return name
}

// FindGPU returns the GPU of a name, as the table or the driver has it.
func FindGPU(name string) (GPU, error) {
	var names []string
	for _, g := range GPUs() {
		if plainName(g.Name) == plainName(name) {
			return g, nil
		}
		names = append(names, g.Name)
	}
	return GPU{}, fmt.Errorf("GPU is %q, want one of %s", name, strings.Join(names, ", "))
}

// FindLLM returns the model of a name, with or without who made it.
func FindLLM(name string) (LLM, error) {
	var names []string
	for _, m := range LLMs() {
		if plainName(m.Name) == plainName(name) {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return LLM{}, fmt.Errorf("model is %q, want one of %s", name, strings.Join(names, ", "))
}
