"""Random workloads with small pools, shared prompts, and prompts in chunks."""
import random

import draws


def workload(seed, settings=None):
    """Return settings, trace block size and rows (timestamp, input_length, output_length, hash_ids) of a case."""
    r = random.Random(seed)
    page = r.choice([1, 16, 64])
    block = r.choice([64, 128]) if page == 64 else r.choice([16, 32, 64])
    n = r.randint(3, 40)
    fresh = iter(range(1, 1 << 30))
    stems = [[next(fresh) for _ in range(r.randint(1, 6))] for _ in range(r.randint(1, 4))]
    rows, now = [], 0.0
    spread = r.choice([0, 5, 30, 120])
    long_out = r.choice([4, 40, 150])
    for _ in range(n):
        now += r.choice([0, r.expovariate(1 / spread) if spread else 0])
        ids = list(r.choice(stems)) if r.random() < 0.7 else []
        ids = ids[: r.randint(0, len(ids))] if r.random() < 0.4 else ids
        ids += [next(fresh) for _ in range(r.randint(0, 5) if ids else r.randint(1, 6))]
        if r.random() < 0.3:
            stems.append(ids)
        length = len(ids) * block - r.choice([0, 0, 1, r.randint(0, block - 1)])
        rows.append({"timestamp": round(now, 3), "input_length": max(1, length), "output_length": r.randint(1, long_out),
                     "hash_ids": ids})
    need = max(-(-x["input_length"] // page) * page + x["output_length"] + 2 * page + 2 for x in rows)
    c = {
        "page_size": page, "num_gpu_blocks": -(-int(need * r.choice([1.0, 1.2, 1.6, 2.5, 6])) // page) + 1,
        "chunked_prefill_size": page * r.choice([1, 2, 5, 8, 100]) if page > 1 else r.choice([16, 50, 128, 1000]),
        "max_prefill_tokens": r.choice([64, 256, 1000, 16384]), "schedule_policy": r.choice(["fcfs", "lpm"]),
        "schedule_conservativeness": r.choice([0.0, 0.3, 1.0, 1.0, 1.5]),
    }
    c["max_running_requests"] = r.choice([max(2, n), max(2, n), 2, 4, 8])
    c.update(settings or {})
    draws.draw_more(seed, c, rows, block)
    return c, block, rows
