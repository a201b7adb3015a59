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


DRAWS = {"clip": draw_clip}
