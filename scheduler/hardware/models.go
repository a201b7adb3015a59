package hardware

// Models returns the models with known shapes, by family. Each shape has the values of the published configuration,
// for the text part of the model.
func Models() []Model {
	all := append(listLlamas(), listQwens()...)
	all = append(all, listMistrals()...)
	all = append(all, listGemmas()...)
	all = append(all, listLatents()...)
	all = append(all, listSparse()...)
	all = append(all, listLinear()...)
	return append(all, listOthers()...)
}

func listLlamas() []Model {
	llama := func(name, source string, layers, hidden, heads, mlp, size int, tied bool) Model {
		return Model{Name: name, Source: "huggingface.co/meta-llama/" + source, Family: "llama", Layers: layers, Hidden: hidden, Vocab: 128256,
			Heads: heads, KVHeads: 8, HeadSize: size, MLP: mlp, Tied: tied, Context: 131072}
	}
	scout := Model{Name: "llama-4-scout", Source: "huggingface.co/meta-llama/Llama-4-Scout-17B-16E", Family: "llama4", Layers: 48, Hidden: 5120, Vocab: 202048,
		Heads: 40, KVHeads: 8, HeadSize: 128, MLP: 16384, Context: 10485760, Window: 8192, WindowLayers: 36, Chunked: true, MoE: &Experts{Count: 16, PerToken: 1, MLP: 8192, Shared: 8192}}
	maverick := scout
	maverick.Name, maverick.Source, maverick.Context = "llama-4-maverick", "huggingface.co/meta-llama/Llama-4-Maverick-17B-128E", 1048576
	maverick.MoE = &Experts{Count: 128, PerToken: 1, MLP: 8192, Shared: 8192, Dense: 24}
	return []Model{
		llama("llama-3.2-1b", "Llama-3.2-1B", 16, 2048, 32, 8192, 64, true),
		llama("llama-3.2-3b", "Llama-3.2-3B", 28, 3072, 24, 8192, 128, true),
		llama("llama-3.1-8b", "Llama-3.1-8B", 32, 4096, 32, 14336, 128, false),
		llama("llama-3.1-70b", "Llama-3.1-70B", 80, 8192, 64, 28672, 128, false),
		llama("llama-3.3-70b", "Llama-3.3-70B-Instruct", 80, 8192, 64, 28672, 128, false),
		llama("llama-3.1-405b", "Llama-3.1-405B", 126, 16384, 128, 53248, 128, false),
		scout, maverick,
	}
}

func listQwens() []Model {
	dense := func(name, family, source string, layers, hidden, heads, kv, mlp, vocab int, tied bool) Model {
		m := Model{Name: name, Source: "huggingface.co/Qwen/" + source, Family: family, Layers: layers, Hidden: hidden, Vocab: vocab,
			Heads: heads, KVHeads: kv, HeadSize: 128, MLP: mlp, Tied: tied, Context: 40960}
		if family == "qwen2" {
			m.HeadSize, m.Context = hidden/heads, 32768
		}
		return m
	}
	experts := func(name, source string, layers, hidden, heads, kv int, e Experts) Model {
		return Model{Name: name, Source: "huggingface.co/Qwen/" + source, Family: "qwen3_moe", Layers: layers, Hidden: hidden, Vocab: 151936,
			Heads: heads, KVHeads: kv, HeadSize: 128, Context: 40960, MoE: &e}
	}
	return []Model{
		dense("qwen2.5-0.5b", "qwen2", "Qwen2.5-0.5B", 24, 896, 14, 2, 4864, 151936, true),
		dense("qwen2.5-1.5b", "qwen2", "Qwen2.5-1.5B", 28, 1536, 12, 2, 8960, 151936, true),
		dense("qwen2.5-3b", "qwen2", "Qwen2.5-3B", 36, 2048, 16, 2, 11008, 151936, true),
		dense("qwen2.5-7b", "qwen2", "Qwen2.5-7B", 28, 3584, 28, 4, 18944, 152064, false),
		dense("qwen2.5-14b", "qwen2", "Qwen2.5-14B", 48, 5120, 40, 8, 13824, 152064, false),
		dense("qwen2.5-32b", "qwen2", "Qwen2.5-32B", 64, 5120, 40, 8, 27648, 152064, false),
		dense("qwen2.5-72b", "qwen2", "Qwen2.5-72B", 80, 8192, 64, 8, 29568, 152064, false),
		dense("qwen3-0.6b", "qwen3", "Qwen3-0.6B", 28, 1024, 16, 8, 3072, 151936, true),
		dense("qwen3-1.7b", "qwen3", "Qwen3-1.7B", 28, 2048, 16, 8, 6144, 151936, true),
		dense("qwen3-4b", "qwen3", "Qwen3-4B", 36, 2560, 32, 8, 9728, 151936, true),
		dense("qwen3-8b", "qwen3", "Qwen3-8B", 36, 4096, 32, 8, 12288, 151936, false),
		dense("qwen3-14b", "qwen3", "Qwen3-14B", 40, 5120, 40, 8, 17408, 151936, false),
		dense("qwen3-32b", "qwen3", "Qwen3-32B", 64, 5120, 64, 8, 25600, 151936, false),
		experts("qwen3-30b-a3b", "Qwen3-30B-A3B", 48, 2048, 32, 4, Experts{Count: 128, PerToken: 8, MLP: 768}),
		experts("qwen3-235b-a22b", "Qwen3-235B-A22B", 94, 4096, 64, 4, Experts{Count: 128, PerToken: 8, MLP: 1536}),
		experts("qwen3-coder-480b-a35b", "Qwen3-Coder-480B-A35B-Instruct", 62, 6144, 96, 8, Experts{Count: 160, PerToken: 8, MLP: 2560}),
	}
}

func listMistrals() []Model {
	mistral := func(name, family, source string, layers, hidden, heads, mlp, vocab, context int) Model {
		return Model{Name: name, Source: "huggingface.co/mistralai/" + source, Family: family, Layers: layers, Hidden: hidden, Vocab: vocab,
			Heads: heads, KVHeads: 8, HeadSize: 128, MLP: mlp, Context: context}
	}
	small := mistral("mixtral-8x7b", "mixtral", "Mixtral-8x7B-v0.1", 32, 4096, 32, 14336, 32000, 32768)
	small.MoE = &Experts{Count: 8, PerToken: 2, MLP: 14336}
	large := mistral("mixtral-8x22b", "mixtral", "Mixtral-8x22B-v0.1", 56, 6144, 48, 16384, 32000, 65536)
	large.MoE = &Experts{Count: 8, PerToken: 2, MLP: 16384}
	return []Model{
		mistral("mistral-7b", "mistral", "Mistral-7B-v0.3", 32, 4096, 32, 14336, 32768, 32768),
		mistral("mistral-nemo-12b", "mistral", "Mistral-Nemo-Base-2407", 40, 5120, 32, 14336, 131072, 131072),
		mistral("mistral-small-24b", "mistral", "Mistral-Small-24B-Base-2501", 40, 5120, 32, 32768, 131072, 32768),
		mistral("mistral-large-123b", "mistral", "Mistral-Large-Instruct-2407", 88, 12288, 96, 28672, 32768, 131072),
		small, large,
	}
}

func listGemmas() []Model {
	gemma := func(name, family string, layers, hidden, heads, kv, size, mlp, vocab, window, windowed int) Model {
		m := Model{Name: name, Source: "huggingface.co/google/" + name, Family: family, Layers: layers, Hidden: hidden, Vocab: vocab,
			Heads: heads, KVHeads: kv, HeadSize: size, MLP: mlp, Tied: true, Context: 131072, Window: window, WindowLayers: windowed}
		if family == "gemma2" {
			m.Context = 8192
		}
		return m
	}
	return []Model{
		gemma("gemma-2-9b", "gemma2", 42, 3584, 16, 8, 256, 14336, 256000, 4096, 21),
		gemma("gemma-2-27b", "gemma2", 46, 4608, 32, 16, 128, 36864, 256000, 4096, 23),
		gemma("gemma-3-4b", "gemma3", 34, 2560, 8, 4, 256, 10240, 262208, 1024, 29),
		gemma("gemma-3-12b", "gemma3", 48, 3840, 16, 8, 256, 15360, 262208, 1024, 40),
		gemma("gemma-3-27b", "gemma3", 62, 5376, 32, 16, 128, 21504, 262208, 1024, 52),
	}
}

// listLatents returns the models with multi-head latent attention.
func listLatents() []Model {
	latent := func(name, source, family string, layers, hidden, heads, mlp, vocab, context, query int, e Experts) Model {
		return Model{Name: name, Source: "huggingface.co/" + source, Family: family, Layers: layers, Hidden: hidden, Vocab: vocab,
			Heads: heads, KVHeads: heads, HeadSize: 128, MLP: mlp, Context: context, MoE: &e,
			Latent: &Latent{Rank: 512, Rope: 64, Query: query, NoPosition: 128, Value: 128}}
	}
	lite := latent("deepseek-v2-lite", "deepseek-ai/DeepSeek-V2-Lite", "deepseek_v2", 27, 2048, 16, 10944, 102400, 163840, 0,
		Experts{Count: 64, PerToken: 6, MLP: 1408, Shared: 2816, Dense: 1})
	v3 := func(name, source string) Model {
		m := latent(name, source, "deepseek_v3", 61, 7168, 128, 18432, 129280, 163840, 1536, Experts{Count: 256, PerToken: 8, MLP: 2048, Shared: 2048, Dense: 3})
		m.Bits, m.ExpertBits, m.ActivationBits, m.Blocks = 8, 8, 8, true
		return m
	}
	kimi := func(name, source string, bits, activations float64) Model {
		m := latent(name, source, "kimi_k2", 61, 7168, 64, 18432, 163840, 131072, 1536, Experts{Count: 384, PerToken: 8, MLP: 2048, Shared: 2048, Dense: 1})
		m.Bits, m.ExpertBits, m.ActivationBits, m.Blocks = 8, 8, activations, true
		if bits < 8 {
			m.Bits, m.ExpertBits = 16, bits // only the experts are quantized
		}
		return m
	}
	return []Model{
		lite,
		v3("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
		v3("deepseek-r1", "deepseek-ai/DeepSeek-R1"),
		v3("deepseek-v3.1", "deepseek-ai/DeepSeek-V3.1"),
		kimi("kimi-k2", "moonshotai/Kimi-K2-Instruct", 8, 8),
		kimi("kimi-k2-thinking", "moonshotai/Kimi-K2-Thinking", 4.5, 16),
		kimi("kimi-k2.5", "moonshotai/Kimi-K2.5", 4.5, 16),
	}
}

func listOthers() []Model {
	oss := func(name string, layers, experts int) Model {
		return Model{Name: name, Source: "huggingface.co/openai/" + name, Family: "gpt_oss", Layers: layers, Hidden: 2880, Vocab: 201088,
			Heads: 64, KVHeads: 8, HeadSize: 64, Context: 131072, Window: 128, WindowLayers: layers / 2, ExpertBits: 4.25,
			MoE: &Experts{Count: experts, PerToken: 4, MLP: 2880}}
	}
	phi := func(name, source, family string, layers, hidden, heads, kv, mlp, vocab, context int) Model {
		return Model{Name: name, Source: "huggingface.co/microsoft/" + source, Family: family, Layers: layers, Hidden: hidden, Vocab: vocab,
			Heads: heads, KVHeads: kv, HeadSize: hidden / heads, MLP: mlp, Context: context}
	}
	mini := phi("phi-4-mini", "Phi-4-mini-instruct", "phi3", 32, 3072, 24, 8, 8192, 200064, 131072)
	mini.Tied = true
	moe := phi("phi-3.5-moe", "Phi-3.5-MoE-instruct", "phimoe", 32, 4096, 32, 8, 6400, 32064, 131072)
	moe.MoE = &Experts{Count: 16, PerToken: 2, MLP: 6400}
	glm := func(name, source, family string, layers, hidden, heads, kv, mlp int, e *Experts) Model {
		return Model{Name: name, Source: "huggingface.co/zai-org/" + source, Family: family, Layers: layers, Hidden: hidden, Vocab: 151552,
			Heads: heads, KVHeads: kv, HeadSize: 128, MLP: mlp, Context: 131072, MoE: e}
	}
	minimax := func(name, source string) Model {
		return Model{Name: name, Source: "huggingface.co/MiniMaxAI/" + source, Family: "minimax_m2", Layers: 62, Hidden: 3072, Vocab: 200064,
			Heads: 48, KVHeads: 8, HeadSize: 128, Context: 196608, Bits: 8, ExpertBits: 8, ActivationBits: 8, Blocks: true,
			MoE: &Experts{Count: 256, PerToken: 8, MLP: 1536}}
	}
	return []Model{
		minimax("minimax-m2", "MiniMax-M2"), minimax("minimax-m2.5", "MiniMax-M2.5"),
		oss("gpt-oss-20b", 24, 32), oss("gpt-oss-120b", 36, 128),
		glm("glm-4-9b", "GLM-4-9B-0414", "glm4", 40, 4096, 32, 2, 13696, nil),
		glm("glm-4-32b", "GLM-4-32B-0414", "glm4", 61, 6144, 48, 2, 23040, nil),
		glm("glm-4.5-air", "GLM-4.5-Air", "glm4_moe", 46, 4096, 96, 8, 10944, &Experts{Count: 128, PerToken: 8, MLP: 1408, Shared: 1408, Dense: 1}),
		glm("glm-4.5", "GLM-4.5", "glm4_moe", 92, 5120, 96, 8, 12288, &Experts{Count: 160, PerToken: 8, MLP: 1536, Shared: 1536, Dense: 3}),
		glm("glm-4.6", "GLM-4.6", "glm4_moe", 92, 5120, 96, 8, 12288, &Experts{Count: 160, PerToken: 8, MLP: 1536, Shared: 1536, Dense: 3}),
		phi("phi-3-mini", "Phi-3-mini-4k-instruct", "phi3", 32, 3072, 32, 32, 8192, 32064, 4096),
		phi("phi-3-medium", "Phi-3-medium-4k-instruct", "phi3", 40, 5120, 40, 10, 17920, 32064, 4096),
		phi("phi-4", "phi-4", "phi3", 40, 5120, 40, 10, 17920, 100352, 16384),
		mini, moe,
	}
}
