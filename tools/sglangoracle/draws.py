"""Additional random settings of a workload, named in the setting draw. They do not change the other draws of a seed."""
import random


def draw_more(seed, c, rows, block):
    for what in c.pop("draw", []):
        r = random.Random(f"{what} {seed}")
        if what == "straddle":
            draw_straddle(r, c, block)
        else:
            DRAWS[what](r, c, rows)


def draw_straddle(r, c, block):
    """Draw a page size that does not divide the block size of the trace."""
    tokens, page = c["page_size"] * c["num_gpu_blocks"], r.choice([p for p in (24, 40, 48, 64, 96) if block % p])
    c["page_size"], c["num_gpu_blocks"] = page, tokens // page + 4
    c["chunked_prefill_size"] = -(-c["chunked_prefill_size"] // page) * page


def draw_clip(r, c, rows):
    """Draw a pool that fits every prompt but not every answer."""
    page = c["page_size"]
    need = max(x["input_length"] for x in rows) + max(7, page + 1)
    c["num_gpu_blocks"] = -(-int(need * r.choice([1.0, 1.05, 1.2, 1.6, 2.5])) // page)
    for x in rows:
        if r.random() < 0.3:
            x["output_length"] = r.choice([1, 2, 40, 300]) + r.randint(0, page)


def draw_ranks(r, c, rows):
    """Draw a number of data-parallel ranks, and multiply chunked_prefill_size by it."""
    c["dp_size"] = n = r.choice([2, 2, 3, 4])
    c["load_balance_method"] = r.choice(["auto", "total_requests", "total_tokens"])
    c["chunked_prefill_size"] *= n
    c["max_running_requests"] = r.choice([c["max_running_requests"], n * c["max_running_requests"]])


def draw_windows(r, c, rows):
    """Draw a pool for sliding-window layers, and in 30 % of the cases longer outputs."""
    c["sliding_window_size"] = r.choice([8, 16, 50, 100])
    c["swa_full_tokens_ratio"] = r.choice([0.15, 0.25, 0.4, 0.6, 0.8, 1.0])
    if r.random() < 0.3:
        longest = max(x["output_length"] for x in rows)
        for x in rows:
            x["output_length"] *= 3
        c["num_gpu_blocks"] += 2 * longest // c["page_size"]


def draw_outgrow(r, c, rows):
    """Draw long answers with a small pool of sliding-window layers, in half of the cases with prefill_decode_interval."""
    c["sliding_window_size"] = r.choice([16, 50, 100, 200])
    c["swa_full_tokens_ratio"] = r.choice([0.1, 0.15, 0.25, 0.4])
    for x in rows:
        if r.random() < 0.5:
            x["output_length"] *= r.choice([2, 5])
    c["num_gpu_blocks"] += max(x["output_length"] for x in rows) // c["page_size"]
    if r.random() < 0.5:
        c["prefill_decode_interval"] = r.choice([1, 2, 3])


def draw_drafts(r, c, rows):
    """Draw speculative decoding: the algorithm, a chain or a tree of drafts, the acceptance rate and the draft time."""
    c["speculative_algorithm"] = a = r.choice(["EAGLE", "EAGLE", "EAGLE3", "STANDALONE", "NGRAM"])
    steps, topk = r.choice([1, 3, 5, 8]), r.choice([1, 1, 4])
    tokens = steps + 1 if topk == 1 else r.randint(2, 2 * topk * steps)
    c.update(speculative_num_steps=steps, speculative_eagle_topk=topk, speculative_num_draft_tokens=tokens)
    law = {"acceptance_rate": r.choice([0.0, 0.5, 0.9, 1.0, [0.2, 0.9]]), "acceptance_seed": r.randrange(1 << 20)}
    if r.random() < 0.5:
        law["draft_ms"] = r.choice([0.3, 1.7])
    if r.random() < 0.3:
        law["draft_share"] = 0.07
    c["speculative_config"] = law
    if not a.startswith("EAGLE"):
        c["enable_mixed_chunk"] = False  # as in SGLang's server
    page = c["page_size"]
    most = max(steps * topk, tokens)
    if page > 1 and topk > 1 and a != "NGRAM":
        most = max((2 * page - 2 + steps) // page * page * topk, tokens)
    c["num_gpu_blocks"] += -(-2 * most // page)


def draw_priority(r, c, rows):
    """Draw priorities and the settings of priority scheduling."""
    c["enable_priority_scheduling"] = True
    c["schedule_policy"] = r.choice(["fcfs", "fcfs", "lof"])
    c["schedule_low_priority_values_first"] = r.random() < 0.4
    c["priority_scheduling_preemption_threshold"] = r.choice([0, 0, 2, 10])
    c["disable_priority_preemption"] = r.random() < 0.15
    c["retraction_policy"] = r.choice(["length", "priority"])
    values = r.choice([[0, 1], [-5, 0, 5], list(range(-20, 20)), [0, 0, 0, 50]])
    for x in rows:
        x["priority"] = r.choice(values)


def draw_interval(r, c, rows):
    """Draw the number of decode passes between prefill passes."""
    c["prefill_decode_interval"] = r.choice([1, 2, 3])
    c["prefill_decode_interval_min_bs"] = r.choice([0, 0, 2, 4])


def draw_prefill(r, c, rows):
    """Draw a prefill worker with a random transfer bandwidth."""
    c["role"] = "prefill"
    c["kv_bytes_per_token"], c["kv_transfer_bandwidth"] = 1000000, r.choice([0, 0.5, 2, 10, 50])


def draw_decode(r, c, rows):
    """Draw a decode worker. Its requests arrive with their KV cache."""
    page = c["page_size"]
    c["role"] = "decode"
    c["num_reserved_decode_tokens"] = r.choice([0, 1, 5, 20, 100, 512])
    need = max(-(-x["input_length"] // page) * page + x["output_length"] for x in rows) + 2 * page + 10
    need = max(need, c["num_reserved_decode_tokens"] + need)
    c["num_gpu_blocks"] = -(-int(need * r.choice([1.0, 1.05, 1.2, 1.6, 2.5])) // page)


def draw_eviction(r, c, rows):
    """Draw an eviction policy with its settings, priorities, and repeated requests."""
    c["radix_eviction_policy"] = p = r.choice(["lfu", "slru", "priority", "tlru"])
    if p == "slru" and r.random() < 0.5:
        c["radix_eviction_policy_config"] = {"protected_threshold": r.choice([1, 3, 5])}
    if p == "tlru":
        estimate = r.choice([0, 10, 40])
        c["radix_eviction_policy_config"] = {"threshold": estimate + r.choice([1, 30, 100, 300]), "next_prompt_estimate": estimate}
    values = r.choice([[0, 1], [-5, 0, 5], [0]])
    for x in rows[:r.choice([0, 10, 20])]:  # repeat the request later
        rows.append({**x, "timestamp": round(rows[-1]["timestamp"] + r.choice([0, 5, 60]), 3), "output_length": r.randint(1, 8)})
    for x in rows:
        x.setdefault("priority", r.choice(values))


DRAWS = {"outgrow": draw_outgrow, "eviction": draw_eviction, "prefill": draw_prefill, "decode": draw_decode, "interval": draw_interval, "windows": draw_windows, "clip": draw_clip, "ranks": draw_ranks, "drafts": draw_drafts, "priority": draw_priority}
