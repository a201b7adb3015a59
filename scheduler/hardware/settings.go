package hardware

import "github.com/replay-llm/replay/schema"

// SettingPrefix is the prefix of keys that are not engine arguments. Engine arguments are derived from the settings
// with the prefix.
const SettingPrefix = "hardware."

// Settings returns the settings of the hardware and model of a worker.
func Settings() []schema.Row { return schema.CompleteRows(append(placeRows(), shareRows()...)) }

// placeRows returns the settings for the GPU and the model.
func placeRows() []schema.Row {
	var gpus, models []string
	for _, g := range GPUs() {
		gpus = append(gpus, g.Name)
	}
	for _, m := range Models() {
		models = append(models, m.Name)
	}
	return []schema.Row{
		{
			Key: SettingPrefix + "gpu", Flag: "gpu", Kind: schema.Path, Help: "`name` of the GPU (see replay gpus)", Offered: gpus, Alike: true,
			File: schema.File{Place: 10, Default: "h100", Help: "replay gpus lists the names"},
			Knob: schema.Knob{Label: "GPU", Preset: "built-in pass times"},
			Doc:  schema.Doc{Text: "GPU of the workers. With `--model` it sets the KV blocks, pass times and transfers (docs/hardware.md)"},
		},
		{
			Key: SettingPrefix + "model", Flag: "model", Kind: schema.Path, Help: "model `name` (see replay models), or config.json", Offered: models, Alike: true,
			Log:  "sglang:model_path",
			File: schema.File{Place: 20, Default: "llama-3.1-8b", Help: "a name that replay models lists, or the path of a config.json"},
			Knob: schema.Knob{Label: "Model", Preset: "none"},
			Doc:  schema.Doc{Text: "model of the workers: a name that `replay models` lists, or the path of a `config.json`"},
		},
		{
			Key: SettingPrefix + "gpu-file", Flag: "gpu-file", Kind: schema.Path, Help: "`file` that adds GPUs, in the format of replay gpus --output json", Alike: true,
			Doc: schema.Doc{Unit: "path", Text: "file that adds GPUs, in the format of `replay gpus --output json`"},
		},
		{
			Key: SettingPrefix + "op-tables", Flag: "op-tables", Kind: schema.Path, Help: "`directory` of measured operator times", Alike: true,
			Doc: schema.Doc{Unit: "path", Text: "directory of measured operator times, with `--gpu` and `--model`"},
		},
	}
}

// shareRows returns the settings for parallelism and for the types of weights and KV cache.
func shareRows() []schema.Row {
	return []schema.Row{
		{
			Key: SettingPrefix + "tp", Flag: "tp", Kind: schema.Int, Default: "1", Help: "tensor parallelism: number of `GPUs`",
			Log:  "vllm:tensor_parallel_size sglang:tp_size",
			File: schema.File{Place: 30, Default: "1", Help: "tensor parallelism: number of GPUs that share each layer"},
			Knob: schema.Knob{Label: "Tensor parallelism", Preset: "1", Choices: "1 2 4 8 16"},
			Doc:  schema.Doc{Text: "tensor parallelism: number of GPUs that share each layer"},
		},
		{
			Key: SettingPrefix + "pp", Flag: "pp", Kind: schema.Int, Default: "1", Help: "pipeline parallelism: number of `stages`", Alike: true,
			Log:  "vllm:pipeline_parallel_size sglang:pp_size",
			File: schema.File{Place: 40, Default: "1", Help: "pipeline parallelism: number of stages"},
		},
		{
			Key: SettingPrefix + "ep", Flag: "ep", Kind: schema.Int, Default: "1", Help: "expert parallelism: number of `GPUs`, --tp times --dp, or 1: each expert is split", Alike: true,
			Log:  "sglang:ep_size",
			File: schema.File{Place: 50, Default: "1", Help: "expert parallelism: number of GPUs that whole experts are spread over, must be 1 or tp times dp; 1: each expert is split"},
			Knob: schema.Knob{Label: "Expert parallelism", Preset: "1", Choices: "1 2 4 8 16"},
			Doc:  schema.Doc{Text: "expert parallelism: number of GPUs that whole experts are spread over, must be 1 or `--tp` times `--dp`; 1: each expert is split"},
		},
		{
			Key: SettingPrefix + "dp", Flag: "dp", Kind: schema.Int, Default: "1", Help: "data parallelism of attention: `ranks` per worker, in lockstep", Alike: true,
			Log:  "vllm:data_parallel_size",
			File: schema.File{Place: 60, Default: "1", Help: "data parallelism of attention: number of ranks per worker"},
			Knob: schema.Knob{Label: "Data parallelism of attention", Preset: "1", Choices: "1 2 4 8 16"},
			Doc:  schema.Doc{Text: "data parallelism of attention: number of ranks per worker, which run in lockstep and share the experts"},
		},
		{
			Key: SettingPrefix + "quantization", Flag: "quantization", Kind: schema.Name, Default: "auto", Help: "data type of the weights, by `name`; auto: as in the checkpoint", Names: Dtypes(), Alike: true,
			Log:  "vllm:quantization sglang:quantization",
			File: schema.File{Place: 70, Default: "auto", Help: "data type of the weights; auto: the type in the checkpoint"},
			Doc:  schema.Doc{Text: "data type of the weights; auto: the type in the checkpoint"},
		},
		{
			Key: SettingPrefix + "kv-cache-dtype", Flag: "kv-cache-dtype", Kind: schema.Name, Default: "auto", Help: "data type of the KV cache, by `name`; auto: bfloat16", Names: []string{"auto", "bfloat16", "fp8"}, Alike: true,
			Log:  "vllm:kv_cache_dtype sglang:kv_cache_dtype",
			File: schema.File{Place: 80, Default: "auto", Help: "data type of the KV cache; auto: bfloat16"},
			Doc:  schema.Doc{Text: "data type of the KV cache; auto: bfloat16"},
		},
		{
			Key: SettingPrefix + "graphs", Flag: "graphs", Kind: schema.Name, Default: "full", Help: "mode of CUDA graphs, by `name`: full, piecewise or none", Names: graphModes(), Alike: true,
			File: schema.File{Place: 90, Default: "full", Help: "mode of CUDA graphs: full, piecewise, or none (--enforce-eager)"},
			Doc:  schema.Doc{Text: "mode of CUDA graphs: full, piecewise, or none (vLLM's `--enforce-eager`)"},
		},
		{
			Key: SettingPrefix + "gpu-memory-utilization", Flag: "gpu-memory-utilization", Kind: schema.Real, Default: "0.9; sglang: as its server", Help: "`share` of GPU memory for the engine", Alike: true,
			Log:  "vllm:gpu_memory_utilization sglang:mem_fraction_static",
			File: schema.File{Place: 100, Default: "0.9", Help: "share of GPU memory that the engine may use, 0 to 1"},
			Doc:  schema.Doc{Default: "0.9; sglang: as its server", Text: "share of GPU memory that the engine may use, 0 to 1"},
		},
	}
}
