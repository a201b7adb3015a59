"""What a workload draws beyond its own: the setting draw names them, so that a seed draws all else as without."""
import random


def draw_more(seed, c, rows):
    for what in c.pop("draw", []):
        DRAWS[what](random.Random(f"{what} {seed}"), c, rows)


def draw_clip(r, c, rows):
    """A pool that holds every prompt, and not every answer."""
    page = c["page_size"]
    need = max(x["input_length"] for x in rows) + max(7, page + 1)
    c["num_gpu_blocks"] = -(-int(need * r.choice([1.0, 1.05, 1.2, 1.6, 2.5])) // page)
    for x in rows:
        if r.random() < 0.3:
            x["output_length"] = r.choice([1, 2, 40, 300]) + r.randint(0, page)


def draw_ranks(r, c, rows):
    """Several ranks, each with the chunks of one."""
    c["dp_size"] = n = r.choice([2, 2, 3, 4])
    c["load_balance_method"] = r.choice(["auto", "total_requests", "total_tokens"])
    c["chunked_prefill_size"] *= n
    c["max_running_requests"] = r.choice([c["max_running_requests"], n * c["max_running_requests"]])


def draw_windows(r, c, rows):
    """A pool for layers with windows, and now and then outputs that go past these."""
    c["sliding_window_size"] = r.choice([8, 16, 50, 100])
    c["swa_full_tokens_ratio"] = r.choice([0.4, 0.6, 0.8, 1.0])
    if r.random() < 0.3:
        longest = max(x["output_length"] for x in rows)
        for x in rows:
            x["output_length"] *= 3
        c["num_gpu_blocks"] += 2 * longest // c["page_size"]


DRAWS = {"windows": draw_windows, "clip": draw_clip, "ranks": draw_ranks}
