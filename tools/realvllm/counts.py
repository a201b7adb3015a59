"""Compare counts that do not depend on time. The exit code is 1 if a count differs.

python counts.py OUT one    compare a sequential run on a vLLM server with the simulation of the same requests
python counts.py OUT full   print the preemptions of server and simulator in a run with too few KV blocks; compare nothing
python counts.py OUT two    compare the client's measurements of two servers with the proxy's measurements

OUT is the output folder of tools/realvllm/loop.
"""

import itertools
import json
import re
import sys

out = sys.argv[1]
bad = []


def read(name):
    with open(f"{out}/{name}") as lines:
        return [json.loads(line) for line in lines]


def list_changes(events):
    """Yield each stored or removed block in order: event type, block name, name of the previous block."""
    for e in events:
        kind, parent = e["type"], e.get("parent")
        for name in e.get("blocks") or []:
            yield kind, name, parent
            parent = name if kind == "BlockStored" else None


def compare_changes(real, ours):
    """Return the first difference, or None.

    Server and simulator name blocks differently, so the function maps names one to one. It compares stored blocks in order, and
    removed blocks in order. The order between stored and removed blocks depends on pass times and is not compared.
    """
    names, known = {None: None}, {None: None}
    for kind in "BlockStored", "BlockRemoved":
        each = [[c for c in side if c[0] == kind] for side in (real, ours)]
        for i, (a, b) in enumerate(itertools.zip_longest(*each, fillvalue=(None, None, None))):
            for x, y in zip(a[1:], b[1:]):
                if names.setdefault(x, y) != y or known.setdefault(y, x) != x:
                    return f"{kind} {i}: block {x}, which was {names[x]} simulated, {y} here"
    return None


def read_counter(file, name):
    with open(f"{out}/{file}") as f:
        return int(float(re.search(rf"^vllm:{name}{{.*}} (\S+)$", f.read(), re.M).group(1)))


def count(changes, kind):
    return sum(c[0] == kind for c in changes)


def compare_sequential():
    measured = sorted(read("one/measured.jsonl"), key=lambda r: r["arrival_time"])
    simulated = sorted(read("one-simulated.jsonl"), key=lambda r: r["id"])
    wanted = read("trace.jsonl")
    real, ours = list(list_changes(read("events.jsonl"))), list(list_changes(read("events-simulated.jsonl")))
    bad.extend(f"{r['request_id']} is {r['status']}" for r in measured if r["status"] != "ok")
    for r, s in zip(measured, simulated, strict=True):
        for name, a, b in (("prompt", r["input_toks"], s["input_tokens"]), ("cached", r["cached_toks"], s["reused_tokens"]), ("output", r["output_toks"], s["output_tokens"])):
            if a != b:
                bad.append(f"request {r['request_id']}: {a} {name} tokens, {b} simulated")
        if r["input_toks"] != wanted[r["line"] - 1]["input_length"]:
            bad.append(f"request {r['request_id']}: {r['input_toks']} prompt tokens, {wanted[r['line'] - 1]['input_length']} in the trace")
    prompts = sum(s["input_tokens"] for s in simulated)
    pairs = [
        ("prompt tokens counted", read_counter("metrics.txt", "prompt_tokens_total"), prompts),
        ("tokens looked up", read_counter("metrics.txt", "prefix_cache_queries_total"), prompts),
        ("tokens found cached", read_counter("metrics.txt", "prefix_cache_hits_total"), sum(s["reused_tokens"] for s in simulated)),
        ("blocks stored, by KV events", count(real, "BlockStored"), count(ours, "BlockStored")),
        ("blocks removed, by KV events", count(real, "BlockRemoved"), count(ours, "BlockRemoved")),
    ]
    print(f"{len(measured)} requests: prompt, cached and output tokens of each compared")
    for name, a, b in pairs:
        print(f"  {name:28} {a:8} {b:8} simulated")
        if a != b:
            bad.append(name)
    if first := compare_changes(real, ours):
        bad.append(first)
    else:
        print("  which blocks were stored and removed, and in which order: the same")
    if count(real, "BlockRemoved") == 0:
        bad.append("no block was removed: the run says nothing about eviction")


def print_preemptions():
    real = read_counter("full-metrics.txt", "num_preemptions_total") - read_counter("metrics.txt", "num_preemptions_total")
    print(f"  {'preemptions':28} {real:8} {sum(s['preemptions'] for s in read('full-simulated.jsonl')):8} simulated")


def compare_sides():
    client, proxy = (sorted((r["status"], r["input_toks"], r["output_toks"], r["cached_toks"]) for r in read(f"{name}/measured.jsonl")) for name in ("driven", "two"))
    print(f"{len(client)} requests of the client, {len(proxy)} of the proxy: status, prompt, output and cached tokens compared")
    if client != proxy:
        bad.append(f"{set(client) ^ set(proxy)} are on one side alone")


{"one": compare_sequential, "full": print_preemptions, "two": compare_sides}[sys.argv[2]]()
for line in bad[:20]:
    print("differs:", line)
if sys.argv[2] != "full":
    print(f"{len(bad)} differences")
sys.exit(1 if bad else 0)
