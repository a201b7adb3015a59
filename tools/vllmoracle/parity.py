"""Run random workloads through vLLM's scheduler and through replay, and print the differences.

    tools/vllmoracle/run VERSION --parity 200 --replay BIN --out DIR [--seed N] [--only I] [--set JSON] [--shrink K]
    tools/vllmoracle/run VERSION --parity 0 --replay BIN --out DIR --cases FILE

The files of a case that differs stay in DIR: case-I.jsonl, case-I.json (settings), timing-I.json, oracle-I/, replay-I.jsonl.
The file cases.jsonl of this folder has one small case for each rule that has differed before.
"""
import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import declared
import dp
import main
import pd
from config import configure, kv_cache
from timing import Profile
from workload import read

from vllm.v1.kv_cache_interface import FullAttentionSpec

CLOSE = 1e-9  # tolerance of times that are equal except for rounding


PROFILE = os.environ.get("VLLM_ORACLE_PROFILE", "vllm-0.19")  # the scheduler_profile of replay


def timing(rng):
    """Return a random timing profile."""
    p = {"base_s": rng.choice([0, 0.002]), "weights_s": rng.uniform(0.002, 0.03), "token_s": rng.uniform(1e-5, 2e-4),
         "pair_s": rng.choice([0, 2e-8]), "request_s": rng.choice([0, 3e-5]), "context_s": rng.uniform(1e-8, 2e-6),
         "mixed_context_s": rng.uniform(1e-8, 2e-6), "mixed_base_s": rng.choice([0, 0.001]), "knee": rng.choice([1, 2, 4]),
         "graph_sizes_tokens": rng.choice([[], [1, 2, 4, 8, 16, 24, 32, 64]])}
    return {"form": "roofline", "version": 1, "source": "random", "parameters": p}


def case(rng):
    """Return the settings, trace block size, rows and timing profile of a random case: small pools, shared prompts."""
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
        if rng.random() < 0.15 and rows:  # repeat the prompt of an earlier row
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
    """Give each row a random priority."""
    levels = rng.choice([2, 3, 100])
    for r in rows:
        r["priority"] = rng.randrange(-1, levels - 1)


def bound(rng, s, rows):
    """Set max_model_len in 35 % of the cases, near the longest sequence. All prompts are shorter, as the front end requires."""
    if "max_model_len" in s or rng.random() >= 0.35:
        return
    least, most = 1 + max(r["input_length"] for r in rows), max(r["input_length"] + r["output_length"] for r in rows)
    s["max_model_len"] = rng.choice([rng.randint(least, most + 1), most, most + 1, most + rng.randint(0, 10)])
    if s["long_prefill_token_threshold"]:
        s["max_model_len"] = max(s["max_model_len"], s["long_prefill_token_threshold"])


def window(rng, s, rows):
    """Give some layers a sliding window or chunks, and size the pool for the blocks of their groups."""
    block, most = s["block_size"], max(r["input_length"] + r["output_length"] for r in rows)
    tokens = rng.choice([2, block - 1, block, block + 1, 2 * block, 3 * block + rng.randint(0, block), rng.randint(2, most + 1), 2 * most])
    s["sliding_window"] = 0 if rng.random() < 0.2 else tokens
    s["attention_chunk_size"] = 0 if s["sliding_window"] else max(1, tokens // block) * block
    windowed, full = rng.choice([(1, 1), (1, 1), (1, 1), (2, 1), (3, 1), (5, 1), (1, 2), (1, 0), (4, 2), (3, 4), (2, 5)])
    kind = "sliding_attention" if s["sliding_window"] else "chunked_attention"
    s["layer_types"] = [kind] * windowed + ["full_attention"] * full
    if rng.random() < 0.6:
        rng.shuffle(s["layer_types"])
    groups = [g.kv_cache_spec for g in kv_cache(configure(main.settle(s)), main.settle(s)).kv_cache_groups]
    windowed, full = sum(not isinstance(g, FullAttentionSpec) for g in groups), sum(isinstance(g, FullAttentionSpec) for g in groups)
    need = kept = (most - 2) // block + 1
    more = rng.choice([0, 1, 3, need // 2, need * 2, need * 8])
    if rng.random() < 0.5:  # only the blocks that the windows need
        kept = min(need, -(-(tokens - 1 + 2 * s["max_num_batched_tokens"]) // block) + 1)
        s["scheduler_reserve_full_isl"] = s["scheduler_reserve_full_isl"] and PROFILE != "vllm-0.19"
    s["num_gpu_blocks"] = 1 + full * need + windowed * kept + more


def speculate(rng, s):
    """Add speculative decoding with a random method, number of drafts, acceptance rate and draft time."""
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
    s["num_gpu_blocks"] += k // s["block_size"] * 2 + 2
    # In half of the cases a pass has room for all drafts, as in vLLM's server.
    if rng.random() < 0.5:
        s["max_num_batched_tokens"] = max(s["max_num_batched_tokens"], s["max_num_seqs"] * (k + 1))
    s["async_scheduling"] = rng.choice([None, None, None, True, False])
    if PROFILE >= "vllm-0.30" and s["long_prefill_token_threshold"]:  # below k + 1 vLLM fails when it pads drafts, and replay does not start
        s["long_prefill_token_threshold"] = max(s["long_prefill_token_threshold"], k + 1)


def offload(rng, s, rows):
    """Add host memory of random size and bandwidths, and repeat prompts."""
    need = max(r["input_length"] for r in rows) // s["block_size"] + 1
    s["num_g2_blocks"] = rng.choice([1, 3, need, need * 3, need * 10, 100000])
    s["kv_bytes_per_token"] = rng.choice([1, 20000, 131072, 1000000])
    s["bandwidth_g1_to_g2_gbps"] = rng.choice([0, 0.1, 1, 14, 50])
    s["bandwidth_g2_to_g1_gbps"] = rng.choice([0, 0.1, 1, 14, 50])
    if rng.random() < 0.7:
        for i, r in enumerate(rows):
            if i and rng.random() < 0.5:
                old = rng.choice(rows[:i])
                r["input_length"], r["hash_ids"] = old["input_length"], list(old["hash_ids"])


PULL = os.environ.get("VLLM_ORACLE_PULL", "").split()
METHODS = os.environ.get("VLLM_ORACLE_METHODS", "eagle eagle3 mtp draft_model ngram_gpu ngram suffix medusa").split()


def disaggregate(rng, s, rows):
    """Add prefill and decode engines with random pools. A transfer of a prompt takes less or more time than a pass."""
    most = max(r["input_length"] + r["output_length"] for r in rows)
    need = (most - 2) // s["block_size"] + 2
    s["prefill_workers"], s["decode_workers"] = rng.choice([(1, 1), (1, 1), (2, 1), (1, 2), (2, 2)])
    s["decode_num_gpu_blocks"] = 1 + need + rng.choice([0, 1, 3, need // 2, need * 2, need * 8])
    s["kv_bytes_per_token"] = rng.choice([20000, 131072, 1000000])
    s["kv_transfer_bandwidth"] = rng.choice([0.1, 1, 14, 50])
    s["kv_transfer_latency_ms"] = rng.choice([0, 0, 0.3, 5])


def rename(rows):
    """Renumber hash ids from 0 in the order of their first appearance."""
    names = {}
    for r in rows:
        r["hash_ids"] = [names.setdefault(h, len(names)) for h in r["hash_ids"]]


def replay(binary, trace_file, s, trace, profile, out):
    rules = {"reserve_whole": bool(s.get("scheduler_reserve_full_isl", True)),
             "long_prefill_tokens": s["long_prefill_token_threshold"]}
    if s["async_scheduling"] is not None:
        rules["two_in_flight"] = s["async_scheduling"]
    if "watermark" in s:
        rules["watermark"] = s["watermark"]
    rules.update(s.get("replay_rules", {}))
    known = declared.rows(binary, "vllm")
    engine = {k: v for k, v in s.items() if k in known and (v or v is False or k.startswith("bandwidth"))}
    engine |= {"scheduler_profile": PROFILE, "scheduler_rules": rules}
    if s.get("data_parallel_size", 1) > 1:
        engine["dp_size"] = s["data_parallel_size"]
    if "policy" in s:
        engine["scheduling_policy"] = s["policy"]
    for name, kind in (("sliding_window", "sliding_attention"), ("attention_chunk_size", "chunked_attention")):
        if s.get(name):
            engine["layer_types"] = s.get("layer_types") or [kind] * s["window_groups"] + ["full_attention"] * s["full_groups"]
    if os.path.exists(out):
        os.remove(out)
    pools = ["--workers", "1"]
    if s.get("prefill_workers"):
        pools = ["--prefill-workers", str(s["prefill_workers"]), "--decode-workers", str(s["decode_workers"]), "--router", "round_robin",
                 "--decode-num-gpu-blocks", str(s["decode_num_gpu_blocks"]), "--kv-transfer-latency-ms", str(s["kv_transfer_latency_ms"])] + (PULL or ["--kv-transfer", s.get("kv_transfer", "pull")])
        for name in ("prefill_workers", "decode_workers", "decode_num_gpu_blocks", "kv_transfer_latency_ms"):
            engine.pop(name, None)
    args = [binary, "trace", trace_file, *pools, "--trace-format", "mooncake", "--trace-block-size", str(trace),
            "--engine-args", json.dumps(engine),
            "--timing-profile", profile, "--requests", out, "--output", "json"]
    r = subprocess.run(args, capture_output=True, text=True, timeout=120)
    if r.returncode:
        return None, r.stderr.strip()[-400:]
    return [json.loads(line) for line in open(out)], None


def compare(theirs, ours):
    """Return the differences by column (number of requests, first request), whether all times are equal, and the largest gap (ms)."""
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


# Results of a case. The last four are failures of replay or of the oracle.
CLASSES = ("equal", "both refuse", "the engine fails", "differ", "only replay refuses", "only the engine refuses", "the oracle fails")
GOOD = CLASSES[:3]


class Outcome:
    def __init__(self, name, text="", told=None, diff=None, exact=False):
        self.name, self.text, self.told, self.diff, self.exact = name, text, told, diff or {}, exact


def ask_engine(work, s, profile, trace, out):
    """Return the summary of the engine's run and None, or None and the Outcome of a failed run."""
    try:
        run = pd.run if s.get("prefill_workers") else dp.run if s.get("data_parallel_size", 1) > 1 else main.run
        return run(read(work), main.settle(s), profile, trace, out), None
    except main.Refused as e:
        return None, Outcome("only the engine refuses", str(e))
    except main.Stuck as e:
        return None, Outcome("the engine fails", str(e))
    except (AssertionError, ValueError, RuntimeError) as e:
        place = traceback.extract_tb(e.__traceback__)[-1]
        name = "the engine fails" if f"{os.sep}vllm{os.sep}" in place.filename else "the oracle fails"
        return None, Outcome(name, f"{type(e).__name__} {e} at {os.path.basename(place.filename)}:{place.lineno}")
    except Exception as e:  # for example an attribute that the oracle does not have
        place = traceback.extract_tb(e.__traceback__)[-1]
        return None, Outcome("the oracle fails", f"{type(e).__name__} {e} at {os.path.basename(place.filename)}:{place.lineno}")


def once(i, s, trace, rows, profile, a):
    """Run a case in vLLM and in replay, and return its Outcome."""
    os.makedirs(a.out, exist_ok=True)
    name = lambda x: os.path.join(a.out, x)  # noqa: E731
    work, times = name(f"case-{i}.jsonl"), name(f"timing-{i}.json")
    with open(work, "w") as f:
        f.writelines(json.dumps(r) + "\n" for r in rows)
    with open(times, "w") as f:
        json.dump(profile, f)
    settings = {k: v for k, v in s.items() if k != "replay_rules"}
    told, failed = ask_engine(work, settings, Profile(times), trace, name(f"oracle-{i}"))
    if failed and failed.name != "only the engine refuses":
        return failed
    ours, problem = replay(a.replay, work, s, trace, times, name(f"replay-{i}.jsonl"))
    if failed:
        return failed if ours is not None else Outcome("both refuse", f"{failed.text}; replay: {problem}")
    if ours is None:
        return Outcome("only replay refuses", problem, told)
    diff, exact, _ = compare(main.run.lives, ours)
    return Outcome("differ" if diff else "equal", json.dumps(diff), told, diff, exact)


def shrink(i, s, trace, rows, profile, a, budget=120):
    """Remove requests, then shorten the remaining requests, while the results still differ. Return the rows."""
    def fails(rows):
        return bool(rows) and once(f"{i}-min", s, trace, rows, profile, a).name == "differ"
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
    p = argparse.ArgumentParser(prog="tools/vllmoracle/run VERSION --parity")
    p.add_argument("count", type=int)
    p.add_argument("--replay", required=True)
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", type=int, default=-1)
    p.add_argument("--set", default="{}")
    p.add_argument("--shrink", type=int, default=0, help="number of differing cases to reduce")
    p.add_argument("--keep", action="store_true", help="also keep the files of equal cases")
    p.add_argument("--show", action="store_true", help="print a line for each case")
    p.add_argument("--record", help="file for small cases and their results in vLLM, one line per case")
    p.add_argument("--cases", help="file of cases to run first, one line per case")
    return p.parse_args(sys.argv[1:])


COLUMNS = ("admit_ms", "first_token_ms", "second_token_ms", "last_token_ms", "reused_tokens", "preemptions")
SMALL = int(os.environ.get("VLLM_ORACLE_SMALL", 24))  # most requests of a recorded case


def record(a, name, outcome, s, trace, rows, profile):
    """Add a case with vLLM's results to the file of --record, for replay's own tests."""
    told = outcome.told
    if not a.record or len(rows) > SMALL or not told:
        return
    s = {**s, "async_scheduling": told["async_scheduling"]}
    profile = {**profile, "parameters": {k: v for k, v in profile["parameters"].items() if v}}
    line = {"name": name, "vllm": told["vllm"], "profile": PROFILE, "settings": s, "trace_block_size": trace, "timing": profile, "rows": rows,
            "columns": COLUMNS, "requests": [[r[k] for k in COLUMNS] for r in main.run.lives]}
    with open(a.record, "a") as f:
        f.write(json.dumps(line, separators=(",", ":")) + "\n")


class Tally:
    """Counts of cases by Outcome."""

    def __init__(self):
        self.classes = dict.fromkeys(CLASSES, 0)
        self.kinds, self.requests, self.exact, self.preempting, self.hitting, self.total = {}, {}, 0, 0, 0, 0

    def add(self, outcome, rows):
        self.classes[outcome.name] += 1
        self.total += len(rows)
        self.exact += outcome.exact and outcome.name == "equal"
        if outcome.told:
            self.preempting += outcome.told["preemptions"] > 0
            self.hitting += outcome.told["cached_tokens"] > 0
        for k, v in outcome.diff.items():
            self.kinds[k] = self.kinds.get(k, 0) + 1
            self.requests[k] = self.requests.get(k, 0) + v[0]

    def print(self, drawn):
        assert drawn == sum(self.classes.values()), (drawn, self.classes)
        print(f"{drawn} cases, {self.total} requests; {self.preempting} cases with preemptions, {self.hitting} with hits; {self.exact} equal to the last bit")
        print("; ".join(f"{n} {name}" for name, n in self.classes.items()))
        if self.kinds:
            print(f"cases that differ by kind: {self.kinds}; requests: {self.requests}")
        return all(name in GOOD or n == 0 for name, n in self.classes.items())


def draw(a, i, fixed):
    """Return the settings, trace block size, rows and timing profile of case i of the seed."""
    rng = random.Random(a.seed * 1_000_003 + i)
    s, trace, rows, profile = case(rng)
    s.update(fixed)
    rename(rows)
    if s.get("speculative_config") == "random":
        speculate(rng, s)
    if s.get("sliding_window") == -1:
        window(rng, s, rows)
    if s.get("num_g2_blocks") == -1:
        offload(rng, s, rows)
    if s.get("prefill_workers") == -1:
        disaggregate(rng, s, rows)
    if s.get("data_parallel_size") == -1:
        s["data_parallel_size"] = rng.choice([2, 2, 3, 4])
    if s.get("policy") == "priority":
        rank(rng, rows)
    bound(rng, s, rows)
    if "max_num_active_seqs" in s:
        s["max_num_active_seqs"] = min(s["max_num_active_seqs"], s["max_num_seqs"])
    return s, trace, rows, profile


def sweep_up(a, i):
    """Remove the files of case i."""
    for x in (f"case-{i}.jsonl", f"timing-{i}.json", f"replay-{i}.jsonl"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(a.out, x))
    shutil.rmtree(os.path.join(a.out, f"oracle-{i}"), ignore_errors=True)


def show(name, outcome, s):
    preempted = outcome.told["preemptions"] if outcome.told else 0
    print(f"{name}: {outcome.name}: {outcome.text} preempted {preempted} {json.dumps(s)}", flush=True)


def parity():
    a = parse()
    fixed = json.loads(a.set)
    tally, shrunk, drawn = Tally(), 0, 0
    for line in open(a.cases) if a.cases else ():
        c = json.loads(line)
        s, rows = {**c["settings"], **fixed}, c["rows"]
        outcome = once(c["name"], s, c["trace_block_size"], rows, c["timing"], a)
        tally.add(outcome, rows)
        drawn += 1
        record(a, c["name"], outcome, s, c["trace_block_size"], rows, c["timing"])
        print(f"{c['name']:20} {outcome.name} {outcome.text}: {c.get('rule', '')} (from {c.get('from', c.get('vllm', ''))})", flush=True)
    for i in range(a.count) if a.only < 0 else [a.only]:
        s, trace, rows, profile = draw(a, i, fixed)
        outcome = once(i, s, trace, rows, profile, a)
        tally.add(outcome, rows)
        drawn += 1
        record(a, f"seed {a.seed}, case {i}", outcome, s, trace, rows, profile)
        if outcome.name not in ("equal", "both refuse") or a.show:
            show(f"case {i}", outcome, s)
        if outcome.name in GOOD and not a.keep:
            sweep_up(a, i)
            continue
        with open(os.path.join(a.out, f"case-{i}.json"), "w") as f:
            json.dump({**s, "trace_block_size": trace}, f)
        if outcome.name == "differ" and shrunk < a.shrink:
            shrunk += 1
            small = shrink(i, s, trace, rows, profile, a)
            with open(os.path.join(a.out, f"case-{i}-min.json"), "w") as f:
                json.dump({**s, "trace_block_size": trace}, f)
            print(f"  made small: {len(small)} requests: " + " ".join(json.dumps(r) for r in small[:8]), flush=True)
    sys.exit(not tally.print(drawn))


if __name__ == "__main__":
    parity()
