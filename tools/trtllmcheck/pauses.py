#!/usr/bin/env python3
"""Compare the pauses of TensorRT-LLM's policy MAX_UTILIZATION with the pauses of replay.

Two requests run at once on a pool of five blocks. The pool fits both prompts, but not both answers. Requires a GPU, tensorrt_llm
and replay.

    tools/trtllmcheck/pauses.py --replay 'go run ./cmd/replay'
"""
import sys

import common

BLOCKS = 5
REQUESTS = [
    {"timestamp": 0, "input_length": 56, "output_length": 48, "hash_ids": [1, 2]},
    {"timestamp": 0, "input_length": 56, "output_length": 48, "hash_ids": [11, 12]},
]


def of_engine(trt, model):
    """Return the number of pauses of requests in the engine."""
    llm = trt.LLM(
        model=model, max_batch_size=8, enable_iter_perf_stats=True,
        kv_cache_config=trt.KvCacheConfig(max_tokens=BLOCKS * common.BLOCK, enable_block_reuse=True),
        scheduler_config=trt.SchedulerConfig(capacity_scheduler_policy=trt.CapacitySchedulerPolicy.MAX_UTILIZATION))
    llm.generate(
        [{"prompt_token_ids": common.tokens_of(r)} for r in REQUESTS],
        [trt.SamplingParams(max_tokens=r["output_length"], ignore_eos=True) for r in REQUESTS])
    pauses = 0
    for item in llm.get_stats(5):
        pauses += common.decoded(item).get("inflightBatchingStats", {}).get("numPausedRequests", 0)
    return pauses


def of_replay(args):
    rows, _ = common.replay(args.replay, "trace", REQUESTS, [
        "--workers", "1", "--num-gpu-blocks", str(BLOCKS), "--capacity-scheduler-policy", "MAX_UTILIZATION", "--scheduler-profile", args.profile])
    return sum(r.get("preemptions", 0) for r in rows)


def main():
    args = common.read_arguments(__doc__)
    trt = common.load_engine(args.fake)
    return common.compare("pauses", of_engine(trt, args.model), of_replay(args))


if __name__ == "__main__":
    sys.exit(main())
