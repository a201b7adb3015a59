"""Print the defaults of an SGLang server, one line for each GPU memory, tensor parallelism and model.

SGLang's own code computes the defaults on a made-up CUDA platform. The resolution of arguments gives chunked_prefill_size and
mem_fraction_static. With half of the GPU's memory, the pool configurator gives the tokens of the pool, the tokens of the
pool of sliding-window layers, and max_running_requests.
"""
import json
import os
import sys
import tempfile
import types

os.environ["CUDA_VISIBLE_DEVICES"] = ""
import stubs  # noqa: E402

stubs.install(["sgl_kernel"])

import logging  # noqa: E402
import warnings  # noqa: E402

warnings.filterwarnings("ignore")
import torch  # noqa: E402
from sglang.srt.arg_groups import memory_hook  # noqa: E402
from sglang.srt.arg_groups.overrides import resolution_result  # noqa: E402
from sglang.srt.configs.model_config import ModelConfig  # noqa: E402
from sglang.srt.mem_cache.kv_cache_configurator import KVCacheConfigurator  # noqa: E402
from sglang.srt.model_executor import cuda_graph_config, pool_configurator  # noqa: E402
from sglang.srt.runtime_context import override_platform  # noqa: E402
from sglang.srt.server_args import ServerArgs  # noqa: E402
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm  # noqa: E402

logging.disable(logging.ERROR)
MEMORY_GIB = [15.0, 19.9, 20.0, 22.03, 31.36, 35.0, 44.4, 59.9, 60.0, 79.19, 90.0, 95.09, 139.8, 160.0, 178.35, 267.69]
MODELS = {
    "llama-3.1-8b": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
                     "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256,
                     "max_position_embeddings": 131072, "head_dim": 128},
    "gpt-oss-20b": {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
                    "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 24, "vocab_size": 201088,
                    "max_position_embeddings": 131072, "head_dim": 64, "sliding_window": 128, "num_local_experts": 32,
                    "num_experts_per_tok": 4, "layer_types": ["sliding_attention", "full_attention"] * 12},
}


def resolve(model, memory, tp, ratio, home):
    cuda_graph_config.default_prefill_backend = lambda: cuda_graph_config.Backend.BREAKABLE  # as on CUDA
    args = ServerArgs(model_path=home, skip_tokenizer_init=True, device="cuda", load_format="dummy", tp_size=tp,
                      swa_full_tokens_ratio=ratio, attention_backend="fa3")
    memory_hook.get_device_memory_capacity = lambda device: memory * 1024
    args.resolve_once()
    return args


def pools(args, model, home, memory, tp, ratio, page):
    """Return pool tokens, pool tokens of sliding-window layers and max_running_requests for half of the memory."""
    config = ModelConfig(home)
    windowed = config.swa_attention_layer_ids or []
    pool_configurator.get_parallel = lambda: types.SimpleNamespace(attn_tp_size=tp, attn_dcp_size=1, pp_size=1)
    pool_configurator.get_schedule = lambda: types.SimpleNamespace(
        swa_full_tokens_ratio=ratio or 0.8, max_running_requests=None, max_total_tokens=None)
    pool_configurator.get_memory = lambda: types.SimpleNamespace(enable_unified_memory=False, disable_radix_cache=False)
    kvc = types.SimpleNamespace(
        kv_cache_dtype_str="auto", model_config=config, kv_cache_dtype=torch.bfloat16, page_size=page, is_draft_worker=False,
        sliding_window_size=127, spec_algorithm=SpeculativeAlgorithm.from_string(None), fused_entry_bytes=lambda side: None,
        layer_info=types.SimpleNamespace(
            full_attention_layer_ids=config.full_attention_layer_ids, swa_attention_layer_ids=windowed))
    budget = int(memory / 2 * (1 << 30))
    if windowed:
        p = pool_configurator.HybridSWAPoolConfigurator(kvc).calculate_pool_sizes(budget, page)
        full, swa = p.full_max_total_num_tokens, p.swa_max_total_num_tokens
    else:
        cell = config.get_num_kv_heads(tp) * (config.head_dim + config.v_head_dim) * config.num_hidden_layers * 2
        full, swa = budget // cell // page * page, 0
    this = types.SimpleNamespace(model_config=config, attn_dp_size=1, mambaish_config=None)
    from sglang.srt.mem_cache import kv_cache_configurator

    kv_cache_configurator.get_schedule = pool_configurator.get_schedule
    return full, swa, KVCacheConfigurator.resolve_max_num_reqs(this, full)


def main():
    for name, model in MODELS.items():
        with tempfile.TemporaryDirectory() as home:
            with open(f"{home}/config.json", "w") as f:
                json.dump({**model, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}, f)
            for memory in MEMORY_GIB:
                for tp in (1, 2, 4, 8):
                    page, ratio = (1, 0.8) if tp < 4 else (64, 0.3)
                    with override_platform(is_cuda=True, is_sm90=True):
                        args = resolve(model, memory, tp, ratio, home)
                    full, swa, seats = pools(args, model, home, memory, tp, ratio, page)
                    print(json.dumps({
                        "model": name, "memory_gib": memory, "tp_size": tp, "page_size": page, "swa_full_tokens_ratio": ratio,
                        "chunked_prefill_size": resolution_result(args, "chunked_prefill_size"),
                        "mem_fraction_static": resolution_result(args, "mem_fraction_static"),
                        "tokens": full, "swa_tokens": swa, "max_running_requests": seats}), flush=True)


main()
