#!/usr/bin/env python3
"""Compare the KV events of TensorRT-LLM with the KV events of replay.

Three requests run one at a time on a pool of six blocks. The second request evicts the last blocks of the first request. The
third request has the same prompt as the first. Requires a GPU, tensorrt_llm and replay.

    tools/trtllmcheck/events.py --replay 'go run ./cmd/replay'
"""
import sys

import common

BLOCKS = 6
REQUESTS = [
    {"timestamp": 0, "input_length": 97, "output_length": 1, "hash_ids": [1, 2, 3, 4]},
    {"timestamp": 0, "input_length": 65, "output_length": 1, "hash_ids": [11, 12, 13]},
    {"timestamp": 0, "input_length": 97, "output_length": 1, "hash_ids": [1, 2, 3, 4]},
]


def of_engine(trt, model):
    """Return the events of the engine: stored or removed, and the number of blocks."""
    llm = trt.LLM(model=model, max_batch_size=8, kv_cache_config=trt.KvCacheConfig(
        max_tokens=BLOCKS * common.BLOCK, enable_block_reuse=True, event_buffer_max_size=1024))
    events = []
    for r in REQUESTS:
        llm.generate([{"prompt_token_ids": common.tokens_of(r)}], trt.SamplingParams(max_tokens=r["output_length"], ignore_eos=True))
        for item in llm.get_kv_cache_events(5):
            data = common.decoded(item)["data"]
            if data["type"] == "stored":
                events.append(("stored", len(data["blocks"])))
            elif data["type"] == "removed":
                events.append(("removed", len(data["block_hashes"])))
    return merge(events)


def merge(events):
    """Return the events with consecutive removals merged."""
    all = []
    for kind, count in events:
        if all and kind == "removed" and all[-1][0] == kind:
            all[-1] = (kind, all[-1][1] + count)
        else:
            all.append((kind, count))
    return all


def of_replay(args):
    _, lines = common.replay(args.replay, "concurrency", REQUESTS, [
        "--max-in-flight", "1", "--num-gpu-blocks", str(BLOCKS), "--scheduler-profile", args.profile])
    names = {"BlockStored": "stored", "BlockRemoved": "removed"}
    return merge([(names[x["type"]], len(x["blocks"])) for x in lines if x["type"] in names])


def main():
    args = common.read_arguments(__doc__)
    trt = common.load_engine(args.fake)
    return common.compare("events", of_engine(trt, args.model), of_replay(args))


if __name__ == "__main__":
    sys.exit(main())
