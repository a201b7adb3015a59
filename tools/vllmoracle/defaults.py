"""Print the default max_num_batched_tokens and max_num_seqs of a server of a vLLM release.

Each row is for one GPU and one set of other settings. vLLM's own engine arguments compute the defaults. The GPU, the model
and the ranks are stand-ins with the attributes that vLLM reads. The header of run shows the command.
The file testdata/vllm/defaults.jsonl has the rows of all releases.
"""
import inspect
import itertools
import json
import os
import sys
import types

os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"
import stubs  # noqa: E402

stubs.install()

from vllm import platforms  # noqa: E402
from vllm.config.cache import CacheConfig  # noqa: E402
from vllm.engine import arg_utils  # noqa: E402
from vllm.usage.usage_lib import UsageContext  # noqa: E402

GPUS = [  # name and memory (GiB) that the driver reports
    ("NVIDIA L4", 22.03), ("NVIDIA A100-SXM4-40GB", 39.39), ("NVIDIA A100-SXM4-80GB", 79.15), ("below", 69.99), ("at", 70),
    ("NVIDIA H100 80GB HBM3", 79.19), ("NVIDIA H200", 139.8), ("below", 159.99), ("at", 160), ("NVIDIA B200", 178.35),
    ("an a100 of the future", 200),
]


class GPU:
    """Stand-in for vLLM's platform: a CUDA GPU with a name and a memory size."""

    def __init__(self, name, gib):
        self.name, self.bytes = name, int(gib * (1 << 30))

    def __getattr__(self, name):
        if not name.startswith("is_"):
            raise AttributeError(name)
        return lambda *_: name in ("is_cuda", "is_cuda_alike")

    def get_device_total_memory(self, device_id=0):
        return self.bytes

    def get_device_name(self, device_id=0):
        return self.name


def ask(gpu, length, settings):
    platforms._current_platform = arg_utils.current_platform = GPU(*gpu)
    args = arg_utils.EngineArgs(**{"enable_chunked_prefill": True, **settings})
    values = {
        "usage_context": UsageContext.OPENAI_API_SERVER,
        "model_config": types.SimpleNamespace(max_model_len=length, is_multimodal_model=False),
        "parallel_config": types.SimpleNamespace(world_size=1, data_parallel_size=1, use_batched_dp_moe=False),
    }
    decide = args._set_default_max_num_seqs_and_batched_tokens_args
    decide(**{k: v for k, v in values.items() if k in inspect.signature(decide).parameters})
    return args.max_num_batched_tokens, args.max_num_seqs


def main(release):
    chosen = [{"enable_chunked_prefill": False}, {"max_num_seqs": 1}, {"max_num_seqs": 2000}, {"max_num_batched_tokens": 100},
              {"max_num_batched_tokens": 5000}, {"max_num_seqs": 8, "enable_chunked_prefill": False}]
    asked = [(gpu, 131072, {}) for gpu in GPUS]
    asked += itertools.product((GPUS[0], GPUS[5]), (1024, 131072), chosen)
    for gpu, length, settings in asked:
        tokens, seqs = ask(gpu, length, settings)
        row = {"release": release, "gpu": gpu[0], "memory_gib": gpu[1], "max_model_len": length, "set": settings,
               "max_num_batched_tokens": tokens, "max_num_seqs": seqs, "block_size": CacheConfig.DEFAULT_BLOCK_SIZE}
        print(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1])
