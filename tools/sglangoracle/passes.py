"""Run SGLang's own scheduler (oracle.py) over a workload: an engine, its ranks, or a prefill or decode worker."""
from __future__ import annotations

import argparse
import json
import sys

import oracle  # must precede all imports of SGLang
import events
import pd
import ranks


def read(path, block, limit=None):
    out = []
    with open(path) as f:
        for i, line in enumerate(f):
            if limit is not None and i >= limit:
                break
            row = json.loads(line)
            out.append(oracle.Request(i, float(row["timestamp"]), oracle.prompt(row["hash_ids"], row["input_length"], block),
                               max(1, row["output_length"])))
    return out


def simulate(config, requests, times=None):
    if config.ranks > 1:
        o = ranks.Lockstep(config, requests, times).run()
    elif config.role != "null":
        o = pd.worker(config, requests, times).run()
    else:
        o = oracle.Oracle(config, requests, times).run()
    return {
        "sglang": oracle.VERSION,
        "requests": [
            {"id": r.rid, "arrival_ms": r.arrival, "input": len(r.tokens), "output": r.output, "got": r.got,
             "reused": r.hit, "host": r.host_hit, "retractions": r.retractions, "first_ms": r.first, "last_ms": r.last,
             "clipped": r.clipped, "refused": r.refused, "aborted_ms": r.aborted}
            for r in sorted(o.by_rid.values(), key=lambda r: r.rid)
        ],
        "passes": o.log,
        "events": events.named(o, config.page_size) if config.events else None,
    }


def main(argv):
    p = argparse.ArgumentParser(prog="sglangoracle passes", description=__doc__.split("\n")[0])
    p.add_argument("trace")
    p.add_argument("--trace-block-size", type=int, default=512)
    p.add_argument("--limit", type=int)
    p.add_argument("--page-size", type=int, default=1)
    p.add_argument("--pages", type=int, default=16384, help="size of the pool, in pages")
    p.add_argument("--max-prefill-tokens", type=int, default=16384)
    p.add_argument("--chunked-prefill-size", type=int, default=8192)
    p.add_argument("--max-running-requests", type=int, default=4096)
    p.add_argument("--schedule-policy", default="fcfs")
    p.add_argument("--schedule-conservativeness", type=float, default=1.0)
    p.add_argument("--disable-radix-cache", action="store_true")
    p.add_argument("--enable-mixed-chunk", action="store_true")
    p.add_argument("--loop", choices=["normal", "overlap"], default="normal")
    p.add_argument("--tree", choices=["default", "python", "radix"], default="default")
    p.add_argument("--ignore-eos", action="store_true")
    p.add_argument("--no-clip", action="store_true")
    p.add_argument("--no-passes", action="store_true")
    p.add_argument("--out", default="-")
    a = p.parse_args(argv)
    c = oracle.Config(
        page_size=a.page_size, pool=a.pages * a.page_size, max_prefill_tokens=a.max_prefill_tokens,
        chunked_prefill_size=a.chunked_prefill_size, max_running_requests=a.max_running_requests,
        schedule_policy=a.schedule_policy, conservativeness=a.schedule_conservativeness,
        disable_cache=a.disable_radix_cache, mixed_chunk=a.enable_mixed_chunk, loop=a.loop, tree=a.tree,
        ignore_eos=a.ignore_eos, clip_outputs=not a.no_clip, passes=not a.no_passes,
    )
    result = simulate(c, read(a.trace, a.trace_block_size, a.limit))
    f = sys.stdout if a.out == "-" else open(a.out, "w")
    json.dump(result, f)
    f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
