"""Compares what a vLLM server counted in a sequential run with what the simulator did with the same requests.

python counts.py OUT    OUT: where tools/realvllm/loop put them. It ends with 1 where a count differs.
"""

import json
import re
import sys

out = sys.argv[1]
block = 128


def read(name):
    with open(f"{out}/{name}") as lines:
        return [json.loads(line) for line in lines]


def count_blocks(kind):
    return sum(len(e.get("blocks") or []) for e in events if kind in e["type"].lower())


measured = sorted(read("one/measured.jsonl"), key=lambda r: r["arrival_time"])
simulated = sorted(read("one-simulated.jsonl"), key=lambda r: r["id"])
events = read("events.jsonl")
with open(f"{out}/metrics.txt") as f:
    metrics = f.read()


def read_counter(name):
    return int(float(re.search(rf"^vllm:{name}{{.*}} (\S+)$", metrics, re.M).group(1)))


bad = [f"{r['request_id']} is {r['status']}" for r in measured if r["status"] != "ok"]
for r, s in zip(measured, simulated, strict=True):
    for name, real, ours in (("prompt", r["input_toks"], s["input_tokens"]), ("cached", r["cached_toks"], s["reused_tokens"]), ("output", r["output_toks"], s["output_tokens"])):
        if real != ours:
            bad.append(f"request {r['request_id']}: {real} {name} tokens, {ours} simulated")
stored = sum((s["input_tokens"] + s["output_tokens"] - 1) // block - s["reused_tokens"] // block for s in simulated)
pairs = [
    ("prompt tokens counted", read_counter("prompt_tokens_total"), sum(s["input_tokens"] for s in simulated)),
    ("tokens found cached", read_counter("prefix_cache_hits_total"), sum(s["reused_tokens"] for s in simulated)),
    ("blocks stored, by KV events", count_blocks("stored"), stored),
]
print(f"{len(measured)} requests: prompt, cached and output tokens of each compared")
for name, real, ours in pairs:
    print(f"  {name:28} {real:8} {ours:8} simulated")
    if real != ours:
        bad.append(name)
print(f"  {'blocks removed, by KV events':28} {count_blocks('removed'):8}")
for line in bad[:20]:
    print("differs:", line)
print(f"{len(bad)} differences")
sys.exit(1 if bad else 0)
