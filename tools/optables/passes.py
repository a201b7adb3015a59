"""Write pass times from the estimator of aiconfigurator-core, for the tests of scheduler/silicon.

    pip install aiconfigurator-core==0.12.0
    python passes.py > ../../scheduler/silicon/testdata/passes.jsonl

Each line has these fields:

    file        file of measurements in scheduler/optables/testdata
    model, tp   model and tensor parallelism, as named in replay
    requests    number of requests of the pass
    tokens      tokens that the pass computes for each request; 0 for a decode pass, with one token
    length      tokens of each request before the pass
    ms          duration of the pass
"""

import json
import logging
import random
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

from aiconfigurator_core.sdk.engine import EngineHandle

POINTS = 500
SERVERS = [  # file, GPU, engine, and models with the tensor parallelism that fits
    ("h100-vllm", "h100_sxm", "vllm", [
        ("llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B", (1, 2, 4)),
        ("llama-3.1-70b", "meta-llama/Meta-Llama-3.1-70B", (4, 8)),
        ("qwen3-32b", "Qwen/Qwen3-32B", (1, 2, 4)),
        ("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B", (1, 2, 4)),
    ]),
    ("h100-sglang", "h100_sxm", "sglang", [
        ("llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B", (1, 2, 4)),
        ("qwen3-32b", "Qwen/Qwen3-32B", (1, 2, 4)),
        ("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B", (8,)),
    ]),
    ("rtxpro6000-vllm", "rtx_pro_6000_server", "vllm", [
        ("llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B", (1, 2)),
        ("qwen3-32b", "Qwen/Qwen3-32B", (1, 2, 4)),
    ]),
    ("gb300-sglang", "gb300", "sglang", [
        ("kimi-k2.5", "nvidia/Kimi-K2.5-NVFP4", (4,)),
        ("llama-3.1-70b", "meta-llama/Meta-Llama-3.1-70B", (1, 2, 4)),
    ]),
]


def draw(rng):
    file, gpu, engine, models = rng.choice(SERVERS)
    name, path, tps = rng.choice(models)
    tp = rng.choice(tps)
    moe = {"moe_tp_size": tp, "moe_ep_size": 1} if name in ("qwen3-30b-a3b", "qwen3-235b-a22b", "kimi-k2.5") else {}
    if name == "kimi-k2.5":
        moe |= {"kvcache_quant_mode": "bfloat16", "fmha_quant_mode": "bfloat16"}
    handle = EngineHandle.compile(path, gpu, engine, tp_size=tp, **moe)
    point = {"file": file, "model": name, "tp": tp}
    if rng.random() < 0.7:
        requests, length = int(2 ** rng.uniform(0, 8)), int(2 ** rng.uniform(7, 14))
        if requests * length > 2**20:
            length = 2**20 // requests
        return point | {"requests": requests, "tokens": 0, "length": length, "ms": handle.predict_decode_latency(requests, length, 2)}
    tokens, past = int(2 ** rng.uniform(6, 13)), rng.choice((0, 0, int(2 ** rng.uniform(6, 13))))
    return point | {"requests": 1, "tokens": tokens, "length": past, "ms": handle.predict_prefill_latency(1, tokens + past, past)}


def main():
    rng = random.Random(33)
    for _ in range(POINTS):
        point = draw(rng)
        print(json.dumps(point | {"ms": float(f"{point['ms']:.6g}")}))


main()
