"""Runs random workloads through vLLM's scheduler and through replay, and says where they differ.

    vllm-oracle VERSION --parity 200 --replay BIN --out DIR [--seed N] [--only I] [--set JSON] [--shrink K]
    vllm-oracle VERSION --parity 0 --replay BIN --out DIR --cases FILE

Every case that differs is left in DIR: case-I.jsonl, case-I.json (settings), timing-I.json, oracle-I/ and replay-I.jsonl.
cases.jsonl beside this file has one small case for each rule that was once found to differ.
"""
import argparse
import json
import os
import random
import subprocess
import sys

import main
from timing import Profile
from workload import read

EXACT, CLOSE = 0.0, 1e-9  # of times: the same bits; the same but for the last digits


PROFILE = os.environ.get("VLLM_ORACLE_PROFILE", "vllm-0.19")  # the rules replay is asked for


def timing(rng):
    """A model of passes in which all terms matter."""
    p = {"base_s": rng.choice([0, 0.002]), "weights_s": rng.uniform(0.002, 0.03), "token_s": rng.uniform(1e-5, 2e-4),
         "pair_s": rng.choice([0, 2e-8]), "request_s": rng.choice([0, 3e-5]), "context_s": rng.uniform(1e-8, 2e-6),
         "mixed_context_s": rng.uniform(1e-8, 2e-6), "mixed_base_s": rng.choice([0, 0.001]), "knee": rng.choice([1, 2, 4]),
         "graph_sizes_tokens": rng.choice([[], [1, 2, 4, 8, 16, 24, 32, 64]])}
    return {"form": "roofline", "version": 1, "source": "random", "parameters": p}


def case(rng):
    """Settings, rows and pass times of one random case: small pools, few seats, shared prompts."""
    block = rng.choice([4, 8, 16, 16, 32])
    trace = block * rng.choice([1, 1, 2, 4])
    n = rng.randint(3, 60)
    longest = rng.choice([6, 20, 60]) * block
    outputs = rng.choice([1, 8, 40, 150])
    s = {"block_size": block, "max_num_seqs": rng.choice([1, 2, 4, 8, 32, 128]), "async_scheduling": rng.random() < 0.7,
         "enable_prefix_caching": rng.random() < 0.85, "enable_chunked_prefill": True,
         "long_prefill_token_threshold": rng.choice([0, 0, 0, 0, block, 3 * block + 1]),
         "scheduler_reserve_full_isl": rng.random() < 0.8}
    s["max_num_batched_tokens"] = max(s["max_num_seqs"], rng.choice([block, 3 * block, 64, 256, 1024, 8192]))
    if rng.random() < 0.1:
        s["enable_chunked_prefill"] = False
        s["max_num_batched_tokens"] = max(s["max_num_batched_tokens"], longest + outputs + block)
    need = (longest + outputs - 2) // block + 1
    s["num_gpu_blocks"] = 1 + need + rng.choice([0, 1, 3, need // 2, need * 2, need * 8])
    heads = [[rng.randrange(1 << 20) for _ in range(rng.randint(1, max(1, longest // trace)))] for _ in range(rng.choice([1, 3, 10]))]
    alike = rng.choice([0, 0.5, 0.9])
    gap = rng.choice([0, 0.1, 3, 30, 300])
    rows, at, fresh = [], 0.0, 1 << 20
    for _ in range(n):
        length = rng.randint(1, longest)
        if rng.random() < 0.2:
            length = max(block, length // block * block)
        blocks = (length + trace - 1) // trace
        head = rng.choice(heads) if rng.random() < alike else []
        ids = head[:rng.randint(0, len(head))][:blocks] if head else []
        if rng.random() < 0.15 and rows:  # the same prompt again
            old = rng.choice(rows)
            length, ids, blocks = old["input_length"], list(old["hash_ids"]), len(old["hash_ids"])
        while len(ids) < blocks:
            ids.append(fresh)
            fresh += 1
        rows.append({"timestamp": round(at, 3), "input_length": length, "output_length": rng.randint(1, outputs), "hash_ids": ids})
        if rng.random() < 0.8:
            at += rng.expovariate(1) * gap
    return s, trace, rows, timing(rng)


def rank(rng, rows):
    """Gives rows priorities."""
    levels = rng.choice([2, 3, 100])
    for r in rows:
        r["priority"] = rng.randrange(-1, levels - 1)


def bound(rng, s, rows):
    """Gives every third case a longest sequence, which answers reach and drafts go beyond. Prompts are shorter, as the frontend has it."""
    if "max_model_len" in s or rng.random() >= 0.35:
        return
    least, most = 1 + max(r["input_length"] for r in rows), max(r["input_length"] + r["output_length"] for r in rows)
    s["max_model_len"] = rng.choice([rng.randint(least, most + 1), most, most + 1, most + rng.randint(0, 10)])
    if s["long_prefill_token_threshold"]:
        s["max_model_len"] = max(s["max_model_len"], s["long_prefill_token_threshold"])


def window(rng, s, rows):
    """Gives some layers a window, or chunks, and the pool the blocks that their groups need."""
    block, most = s["block_size"], max(r["input_length"] + r["output_length"] for r in rows)
    tokens = rng.choice([2, block - 1, block, block + 1, 2 * block, 3 * block + rng.randint(0, block), rng.randint(2, most + 1), 2 * most])
    s["sliding_window"] = 0 if rng.random() < 0.2 else tokens
    s["attention_chunk_size"] = 0 if s["sliding_window"] else max(1, tokens // block) * block
    s["window_groups"], s["full_groups"] = rng.choice([(1, 1), (1, 1), (1, 1), (2, 1), (3, 1), (5, 1), (1, 2), (1, 0)])
    need = kept = (most - 2) // block + 1
    more = rng.choice([0, 1, 3, need // 2, need * 2, need * 8])
    if rng.random() < 0.5:  # no more than the windows need
        kept = min(need, -(-(tokens - 1 + 2 * s["max_num_batched_tokens"]) // block) + 1)
        s["scheduler_reserve_full_isl"] = s["scheduler_reserve_full_isl"] and PROFILE != "vllm-0.19"
    s["num_gpu_blocks"] = 1 + s["full_groups"] * need + s["window_groups"] * kept + more


def speculate(rng, s):
    """Speculative decoding: kinds of drafts, few and many, of which few or many are accepted."""
    k = rng.choice([1, 2, 3, 5, 8])
    spec = {"method": rng.choice(METHODS), "num_speculative_tokens": k, "acceptance_seed": rng.randrange(1 << 20)}
    kind = rng.randrange(3)
    if kind == 0:
        spec["acceptance_rate"] = rng.choice([0.0, 0.5, 0.9, 1.0])
    elif kind == 1:
        low = rng.random()
        spec["acceptance_rate"] = [low, rng.uniform(low, 1)]
    else:
        spec["synthetic_acceptance_rates"] = sorted((rng.random() for _ in range(k)), reverse=True)
    if rng.random() < 0.5:
        spec["draft_ms"] = rng.uniform(0, 3)
    if rng.random() < 0.3:
        spec["draft_share"] = rng.uniform(0, 0.3)
    s["speculative_config"] = spec
    if PROFILE > "vllm-0.24" and s["long_prefill_token_threshold"]:  # vLLM stops where it pads to more than that
        s["long_prefill_token_threshold"] = max(s["long_prefill_token_threshold"], k + 1)
    s["num_gpu_blocks"] += k // s["block_size"] * 2 + 2
    # A pass has room for all drafts, as vLLM's server sees to, now and then.
    if rng.random() < 0.5:
        s["max_num_batched_tokens"] = max(s["max_num_batched_tokens"], s["max_num_seqs"] * (k + 1))


METHODS = os.environ.get("VLLM_ORACLE_METHODS", "ngram_gpu draft_model eagle").split()


def rename(rows):
    """Hash ids by first appearance, as small as can be."""
    names = {}
    for r in rows:
        r["hash_ids"] = [names.setdefault(h, len(names)) for h in r["hash_ids"]]


def replay(binary, trace_file, s, trace, profile, out):
    rules = {"two_in_flight": bool(s["async_scheduling"]), "reserve_whole": bool(s.get("scheduler_reserve_full_isl", True)),
             "long_prefill_tokens": s["long_prefill_token_threshold"]}
    if "watermark" in s:
        rules["watermark"] = s["watermark"]
    rules.update(s.get("replay_rules", {}))
    engine = {"scheduler_profile": PROFILE, "scheduler_rules": rules}
    for theirs, name in (("policy", "scheduling_policy"), ("prefill_schedule_interval",) * 2, ("max_num_active_seqs",) * 2,
                         ("speculative_config",) * 2):
        if theirs in s:
            engine[name] = s[theirs]
    for name, kind in (("sliding_window", "sliding_attention"), ("attention_chunk_size", "chunked_attention")):
        if s.get(name):
            engine[name] = s[name]
            engine["layer_types"] = [kind] * s["window_groups"] + ["full_attention"] * s["full_groups"]
    if os.path.exists(out):
        os.remove(out)
    args = [binary, "trace", trace_file, "--workers", "1", "--trace-format", "mooncake", "--trace-block-size", str(trace),
            "--engine-args", json.dumps(engine),
            "--timing-profile", profile, "--num-gpu-blocks", str(s["num_gpu_blocks"]), "--block-size", str(s["block_size"]),
            "--max-num-seqs", str(s["max_num_seqs"]), "--max-num-batched-tokens", str(s["max_num_batched_tokens"]),
            "--enable-prefix-caching=" + str(s["enable_prefix_caching"]).lower(),
            "--enable-chunked-prefill=" + str(s["enable_chunked_prefill"]).lower(), "--requests", out, "--output", "json"]
    if s.get("max_model_len"):
        args += ["--max-model-len", str(s["max_model_len"])]
    r = subprocess.run(args, capture_output=True, text=True, timeout=120)
    if r.returncode:
        return None, r.stderr.strip().splitlines()[-1:]
    return [json.loads(line) for line in open(out)], None


def compare(theirs, ours):
    """What differs, by kind: number of requests and the first of them."""
    diff, worst = {}, 0.0
    times = ("admit_ms", "first_token_ms", "second_token_ms", "last_token_ms")

    def note(kind, r):
        diff.setdefault(kind, [0, r])[0] += 1

    exact = True
    for a, b in zip(theirs, ours):
        for k in ("reused_tokens", "preemptions", "generated_tokens"):
            if a[k] != b[k]:
                note(k, a["id"])
        for k in times:
            x, y = a[k], b[k]
            if x is None or y is None:
                if x is not y:
                    note(k, a["id"])
                continue
            exact = exact and x == y
            far = abs(x - y)
            worst = max(worst, far)
            if far > 1e-6 + CLOSE * abs(x):
                note(k, a["id"])

    def order(rows):
        return [r["id"] for r in sorted(rows, key=lambda r: (r["admit_ms"], r["id"]))]
    if order(theirs) != order(ours):
        note("order", next(x for x, y in zip(order(theirs), order(ours)) if x != y))
    return diff, exact, worst


def once(i, s, trace, rows, profile, a):
    os.makedirs(a.out, exist_ok=True)
    name = lambda x: os.path.join(a.out, x)  # noqa: E731
    work, times = name(f"case-{i}.jsonl"), name(f"timing-{i}.json")
    with open(work, "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    json.dump(profile, open(times, "w"))
    settings = {k: v for k, v in s.items() if k != "replay_rules"}
    told = main.run(read(work), main.settle(settings), Profile(times), trace, name(f"oracle-{i}"))
    ours, problem = replay(a.replay, work, s, trace, times, name(f"replay-{i}.jsonl"))
    if ours is None:
        return told, {"error": [1, str(problem)]}, False, 0.0
    return (told, *compare(main.run.lives, ours))


def shrink(i, s, trace, rows, profile, a, budget=120):
    """Leaves out requests, then shortens them, while there still is a difference."""
    def fails(rows):
        try:
            found = bool(rows) and once(f"{i}-min", s, trace, rows, profile, a)[1]
            return bool(found) and "error" not in found
        except (SystemExit, AssertionError):
            return False
    step = max(1, len(rows) // 2)
    while step and budget > 0:
        at = 0
        while at < len(rows) and budget > 0:
            fewer = rows[:at] + rows[at + step:]
            budget -= 1
            if fails(fewer):
                rows = fewer
            else:
                at += step
        step //= 2
    for j in range(len(rows)):
        for field, least in (("output_length", 1), ("input_length", 1)):
            while rows[j][field] > least and budget > 0:
                smaller = [dict(r) for r in rows]
                smaller[j][field] = max(least, rows[j][field] // 2)
                smaller[j]["hash_ids"] = rows[j]["hash_ids"][:(smaller[j]["input_length"] + trace - 1) // trace]
                budget -= 1
                if not fails(smaller):
                    break
                rows = smaller
    fails(rows)
    return rows


def parse():
    p = argparse.ArgumentParser(prog="vllm-oracle VERSION --parity")
    p.add_argument("count", type=int)
    p.add_argument("--replay", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", type=int, default=-1)
    p.add_argument("--set", default="{}")
    p.add_argument("--shrink", type=int, default=0, help="how many cases that differ to make small")
    p.add_argument("--keep", action="store_true", help="leave the cases that are equal, too")
    p.add_argument("--record", help="a file to which small cases go with what vLLM did, a line each")
    p.add_argument("--cases", help="cases to run first, a line each")
    return p.parse_args(sys.argv[1:])


COLUMNS = ("admit_ms", "first_token_ms", "second_token_ms", "last_token_ms", "reused_tokens", "preemptions")
SMALL = int(os.environ.get("VLLM_ORACLE_SMALL", 24))  # requests of a case that is recorded, at most


def record(a, name, told, s, trace, rows, profile):
    """Adds a case to the file of --record, for replay's own tests."""
    if not a.record or len(rows) > SMALL:
        return
    profile = {**profile, "parameters": {k: v for k, v in profile["parameters"].items() if v}}
    line = {"name": name, "vllm": told["vllm"], "profile": PROFILE, "settings": s, "trace_block_size": trace, "timing": profile, "rows": rows,
            "columns": COLUMNS, "requests": [[r[k] for k in COLUMNS] for r in main.run.lives]}
    with open(a.record, "a") as f:
        f.write(json.dumps(line, separators=(",", ":")) + "\n")


def parity():
    a = parse()
    fixed = json.loads(a.set)
    kinds, equal, exact, cases, preempting, hitting, shrunk, total = {}, 0, 0, 0, 0, 0, 0, {}
    requests = 0
    for line in open(a.cases) if a.cases else ():
        c = json.loads(line)
        rows = c["rows"]
        told, diff, _, _ = once(c["name"], {**c["settings"], **fixed}, c["trace_block_size"], rows, c["timing"], a)
        record(a, c["name"], told, {**c["settings"], **fixed}, c["trace_block_size"], rows, c["timing"])
        print(f"{c['name']:20} {json.dumps(diff) if diff else 'equal'}: {c['rule']} (from {c['from']})", flush=True)
    for i in range(a.count):
        if a.only >= 0 and i != a.only:
            continue
        rng = random.Random(a.seed * 1_000_003 + i)
        s, trace, rows, profile = case(rng)
        s.update(fixed)
        if s.get("speculative_config") == "random":
            speculate(rng, s)
        rename(rows)
        if s.get("sliding_window") == -1:
            window(rng, s, rows)
        if s.get("policy") == "priority":
            rank(rng, rows)
        bound(rng, s, rows)
        if "max_num_active_seqs" in s:
            s["max_num_active_seqs"] = min(s["max_num_active_seqs"], s["max_num_seqs"])
        try:
            told, diff, same, worst = once(i, s, trace, rows, profile, a)
        except SystemExit as e:
            print(f"case {i}: left out: {e} {json.dumps(s)}", flush=True)
            continue
        record(a, f"seed {a.seed}, case {i}", told, s, trace, rows, profile)
        cases += 1
        requests += len(rows)
        preempting += told["preemptions"] > 0
        hitting += told["cached_tokens"] > 0
        exact += same and not diff
        if not diff:
            equal += 1
            if not a.keep:
                for x in (f"case-{i}.jsonl", f"timing-{i}.json", f"replay-{i}.jsonl", f"oracle-{i}/requests.jsonl", f"oracle-{i}/passes.jsonl", f"oracle-{i}/run.json"):
                    os.remove(os.path.join(a.out, x))
                os.rmdir(os.path.join(a.out, f"oracle-{i}"))
            continue
        for k, v in diff.items():
            kinds[k] = kinds.get(k, 0) + 1
            if k != "error":
                total[k] = total.get(k, 0) + v[0]
        json.dump({**s, "trace_block_size": trace}, open(os.path.join(a.out, f"case-{i}.json"), "w"))
        brief = {k: v for k, v in s.items()}
        print(f"case {i}: {json.dumps(diff)} preempted {told['preemptions']} {json.dumps(brief)}", flush=True)
        if shrunk < a.shrink:
            shrunk += 1
            small = shrink(i, s, trace, rows, profile, a)
            json.dump({**s, "trace_block_size": trace}, open(os.path.join(a.out, f"case-{i}-min.json"), "w"))
            print(f"  made small: {len(small)} requests: " + " ".join(json.dumps(r) for r in small[:8]), flush=True)
    if not cases:
        return
    print(f"{cases} cases, {requests} requests; {preempting} cases with preemptions, {hitting} with hits")
    print(f"{equal} equal ({100 * equal / max(1, cases):.1f} %), {exact} to the last bit; cases that differ by kind: {kinds}; requests: {total}")
    sys.exit(equal < cases)


if __name__ == "__main__":
    parity()
