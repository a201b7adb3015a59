"""Run workloads through SGLang's scheduler, compare the results with replay, and record them.

    --parity N [--seed S] [--set JSON] [--replay BIN] [--record FILE] [--small K]   random cases S to S+N-1, both loops
    --trace FILE [--limit N] [--set JSON] [--replay BIN] [--record FILE]            rows of a file
    --cases FILE [--replay BIN] [--record FILE]                                      cases as --record writes them

Compared for each request: time of the first token, time of the last token (ms, exactly), reused tokens, preemptions and
output tokens. The order of first tokens is compared for each case. Without --replay, nothing is compared.
"""
from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import traceback

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))

import declared
import hicache
import oracle
import order as orders
import passes
from workload import workload

ABORTED = -1  # first column of a request that is aborted for lack of memory
COLUMNS = ["first_token_ms", "last_token_ms", "reused_tokens", "preemptions", "tokens", "reused_from_host_tokens"]
DEFAULTS = {"page_size": 16, "num_gpu_blocks": 16384, "chunked_prefill_size": 8192, "max_prefill_tokens": 16384,
            "schedule_policy": "fcfs", "schedule_conservativeness": 1.0, "max_running_requests": 4096}
FLAGS = {"enable_prefix_caching": True, "ignore_eos": False, "enable_mixed_chunk": False, "prefill_max_requests": None,
         "decode_log_interval": 40, "dp_size": 1, "load_balance_method": "auto", "sliding_window_size": None,
         "swa_full_tokens_ratio": 0.8,
         "role": "null", "num_reserved_decode_tokens": 512, "kv_transfer_bandwidth": 0.0, "kv_bytes_per_token": 0}
# Settings of FLAGS for an engine that both prefills and decodes.
ALONE = ["enable_prefix_caching", "ignore_eos", "enable_mixed_chunk", "prefill_max_requests", "decode_log_interval", "dp_size",
         "sliding_window_size", "swa_full_tokens_ratio"]
# Settings of cases with speculative decoding.
DRAFTS = ["speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens",
          "speculative_config"]
FIELDS = ("timestamp", "input_length", "output_length", "hash_ids", "priority")


def ask_sglang(case, events=False):
    """Return whether SGLang refuses a prompt, the columns of each request, and the KV-cache events (or None)."""
    s = case["settings"]
    c = oracle.Config(
        page_size=s["page_size"], pool=s["num_gpu_blocks"] * s["page_size"], max_prefill_tokens=s["max_prefill_tokens"],
        chunked_prefill_size=s["chunked_prefill_size"], schedule_policy=s["schedule_policy"],
        conservativeness=s["schedule_conservativeness"], max_running_requests=s["max_running_requests"],
        prefill_max_requests=s.get("prefill_max_requests"), **hicache.settings(s),
        decode_log_interval=s.get("decode_log_interval", 40),
        disable_cache=not s["enable_prefix_caching"], mixed_chunk=s["enable_mixed_chunk"], ignore_eos=s["ignore_eos"],
        ranks=s.get("dp_size", 1), load_balance_method=s.get("load_balance_method", "auto"), loop=case["loop"], passes=False,
        sliding_window_size=s.get("sliding_window_size"), swa_full_tokens_ratio=s.get("swa_full_tokens_ratio", 0.8),
        role=s.get("role", "null"), reserved_decode=s.get("num_reserved_decode_tokens", 512),
        transfer=(s.get("kv_transfer_bandwidth", 0.0), s.get("kv_bytes_per_token", 0)),
        order=orders.settings(s),
        events=events, **{k: s[k] for k in DRAFTS if k in s})
    start = float(case["rows"][0]["timestamp"])  # replay's clock starts with the first arrival
    requests = [oracle.Request(i, float(x["timestamp"]) - start,
                               oracle.prompt(x["hash_ids"], x["input_length"], case["trace_block_size"]),
                               max(1, x["output_length"]), x.get("priority", 0)) for i, x in enumerate(case["rows"])]
    answer = passes.simulate(c, requests)
    did = answer["requests"]
    refused = any(x["refused"] for x in did)
    return refused, [aborted(x["aborted_ms"], x["retractions"], x["got"]) if x["aborted_ms"] is not None else
                     [x["first_ms"], x["last_ms"], x["reused"], x["retractions"], x["got"], *hicache.columns(x)] for x in did], answer["events"]


def aborted(at, retractions, got):
    """Return the columns of a request that is aborted for lack of memory at the time at."""
    return [ABORTED, at, ABORTED, retractions, got]


class ReplayRefuses(Exception):
    """Raised if replay rejects the case or fails."""


def ask_replay(program, case):
    s = case["settings"]
    with tempfile.TemporaryDirectory() as d:
        with open(f"{d}/t.jsonl", "w") as f:
            f.writelines(json.dumps(x) + "\n" for x in case["rows"])
        given = {k: s[k] for k in DEFAULTS} | {"overlap": case["loop"] == "overlap"}
        given |= {k: s[k] for k in ALONE if s.get(k, FLAGS[k]) != FLAGS[k]}
        if s.get("dp_size", 1) > 1:
            given["load_balance_method"] = s["load_balance_method"]
        if "speculative_algorithm" in s:
            given |= drafts_given(s)
        given |= orders.changed(s) | hicache.given(s)
        done = subprocess.run(
            [program, "trace", f"{d}/t.jsonl", "--engine", "sglang", "--scheduler-profile", "sglang-0.5.23",
             "--trace-block-size", str(case["trace_block_size"]), "--requests", f"{d}/r.jsonl", "--output", "json",
             *declared.flags(program, "sglang", given)], capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise ReplayRefuses(done.stderr.strip()[-300:])
        out = {}
        with open(f"{d}/r.jsonl") as f:
            for line in f:
                x = json.loads(line)
                if x.get("outcome") == "rejected":
                    out[x["line"] - 1] = aborted(None, x["preemptions"] or 0, x["lost_tokens"])
                    continue
                out[x["line"] - 1] = [x["first_token_ms"], x["last_token_ms"], x["reused_tokens"], x["preemptions"] or 0,
                                      x["generated_tokens"], *hicache.columns(x)]
        return [out[i] for i in range(len(case["rows"]))]


def drafts_given(s):
    """Return the settings of speculative decoding for replay."""
    breadth = "speculative_ngram_max_bfs_breadth" if s["speculative_algorithm"] == "NGRAM" else "speculative_eagle_topk"
    names = ("speculative_algorithm", "speculative_num_steps", "speculative_num_draft_tokens", "speculative_config")
    return {k: s[k] for k in names} | {breadth: s["speculative_eagle_topk"]}


def cases(a):
    """Yield the cases that the arguments select."""
    fixed = json.loads(a.set)
    if a.cases:
        with open(a.cases) as f:
            for line in f:
                c = json.loads(line)
                c["settings"].update(fixed)
                yield c
        return
    if a.trace:
        with open(a.trace) as f:
            rows = [json.loads(x) for _, x in zip(range(a.limit), f)]
        found = [(a.trace, ({**DEFAULTS, **fixed}, a.trace_block_size, rows))]
    else:
        found = ((f"seed {i}", hicache.draw(i, workload(i, fixed), fixed)) for i in range(a.seed, a.seed + a.parity))
    for name, (s, block, rows) in found:
        rows = [{k: x[k] for k in FIELDS if k in x} for x in rows]
        for loop in a.loops.split(","):
            yield {"name": name, "sglang": oracle.VERSION, "loop": loop, "settings": {**FLAGS, **s},
                   "trace_block_size": block, "rows": rows, "columns": COLUMNS}


def order(did):
    return sorted((i for i in range(len(did)) if did[i][0] != ABORTED), key=lambda i: (did[i][0], i))


# Results of a case. Results that are not in GOOD are failures of replay or of the oracle.
CLASSES = ("equal", "as recorded", "SGLang fails", "SGLang refuses a prompt", "differs", "only replay refuses", "not compared", "the oracle fails")
GOOD = CLASSES[:4]


class Tally:
    """Counts of cases by result, and of cases that differ by column."""

    def __init__(self):
        self.classes, self.fields, self.requests = dict.fromkeys(CLASSES, 0), collections.Counter(), 0

    def add(self, name, kind, text="", rows=()):
        self.classes[kind] += 1
        self.requests += len(rows)
        if kind not in ("equal", "as recorded"):
            print(f"{name}: {kind}: {text}", flush=True)

    def print(self):
        print(f"{sum(self.classes.values())} cases with {self.requests} requests: " + "; ".join(f"{n} {kind}" for kind, n in self.classes.items()))
        if self.classes["differs"]:
            print("differ in: " + ", ".join(f"{k} {n}" for k, n in self.fields.items()))
        return all(kind in GOOD or n == 0 for kind, n in self.classes.items())


def judge(a, case, tally):
    """Return the result of a case, a text, and the columns and events of SGLang (None if SGLang failed)."""
    try:
        refused, did, published = ask_sglang(case, a.events)
    except (oracle.Stall, AssertionError, RuntimeError, ValueError) as e:
        place = traceback.extract_tb(e.__traceback__)[-1]
        if isinstance(e, oracle.Stall) or f"{os.sep}sglang{os.sep}" in place.filename:
            return "SGLang fails", repr(str(e)[:90]), None, None  # SGLang has nothing to run, or no memory for a planned pass
        return "the oracle fails", f"{e!r} at {place.filename}:{place.lineno}", None, None
    except Exception as e:
        place = traceback.extract_tb(e.__traceback__)[-1]
        return "the oracle fails", f"{e!r} at {place.filename}:{place.lineno}", None, None
    if refused:
        return "SGLang refuses a prompt", "", None, None
    if case["settings"].get("role", "null") != "null":  # a prefill or decode worker alone; go test compares it
        if "requests" not in case:
            return ("equal" if not a.replay else "not compared"), "a worker of one role: --record it, for go test", did, published
        same = all(x[:len(y)] == y for x, y in zip(did, case["requests"], strict=True))  # older cases have fewer columns
        return ("as recorded" if same else "differs"), "from what was recorded", did, published
    if not a.replay:
        return "equal", "", did, published
    try:
        here = ask_replay(a.replay, case)
    except (ReplayRefuses, subprocess.TimeoutExpired) as e:
        return "only replay refuses", str(e), did, published
    for x, y in zip(did, here):
        if y[1] is None:  # replay's file of requests lacks this time; go test compares it
            y[1] = x[1]
    wrong = [f"request {i}: {COLUMNS[k]} is {y[k]}, and {x[k]} in SGLang"
             for i, (x, y) in enumerate(zip(did, here)) for k in range(min(len(x), len(y))) if x[k] != y[k]]
    tally.fields["order"] += order(did) != order(here)
    for k, column in enumerate(COLUMNS):
        tally.fields[column] += any(x[k:k + 1] != y[k:k + 1] for x, y in zip(did, here) if k < len(y))
    return ("differs", f"{wrong[0]} ({len(wrong)} in all)", did, published) if wrong else ("equal", "", did, published)


def main():
    p = argparse.ArgumentParser(prog="sglangoracle", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("--parity", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--trace")
    p.add_argument("--trace-block-size", type=int, default=512)
    p.add_argument("--limit", type=int, default=1 << 30)
    p.add_argument("--cases")
    p.add_argument("--set", default="{}", help="settings of all cases, a JSON object")
    p.add_argument("--loops", default="normal,overlap")
    p.add_argument("--replay", help="path of the program replay")
    p.add_argument("--record", help="file for cases and their results in SGLang, one line per case")
    p.add_argument("--events", action="store_true", help="also record the published KV events")
    p.add_argument("--small", type=int, default=1 << 30, help="maximum number of requests of a recorded case")
    a = p.parse_args()
    tally = Tally()
    for c in cases(a):
        kind, text, did, published = judge(a, c, tally)
        tally.add(f"{c['name']}, {c['loop']}", kind, text, c["rows"])
        if did and a.record and len(c["rows"]) <= a.small:
            with open(a.record, "a") as f:
                kept = {**c, "requests": did, **({"published": published} if a.events else {})}
                f.write(json.dumps(kept, separators=(",", ":")) + "\n")
    sys.exit(not tally.print())


main()
