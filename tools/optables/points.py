"""Recompute operator times from the Parquet files of aiconfigurator-core, for the tests of scheduler/optables.

    pip install pandas pyarrow
    python points.py SYSTEMS > ../../scheduler/optables/testdata/points.jsonl

SYSTEMS is the folder systems/ of the unpacked wheel. Each line has the file of testdata with the operator, the operator, its
arguments and its time in ms. The computation does not use the Go code.
"""

import bisect
import functools
import json
import math
import random
import sys

import numpy as np
import pandas as pd
import yaml

ROOT = sys.argv[1].rstrip("/")
VERSIONS = {"vllm": "0.24.0", "sglang": "0.5.14", "trtllm": "1.3.0rc20"}
BYTES = {"bfloat16": 2, "fp8": 1, "fp8_block": 1, "nvfp4": 0.5625}


@functools.cache
def sheet(gpu):
    return yaml.safe_load(open(f"{ROOT}/{gpu}.yaml"))["gpu"]


def bound(gpu, dtype, ops, size):
    name = {"nvfp4": "fp4_tc_flops", "fp8": "fp8_tc_flops", "fp8_block": "fp8_tc_flops"}.get(dtype, "bfloat16_tc_flops")
    return max(ops / sheet(gpu)[name], size / sheet(gpu)["mem_bw"]) * 1e3


@functools.cache
def table(gpu, family, engine, name):
    return pd.read_parquet(f"{ROOT}/data/{gpu}/{family}/{engine}/{VERSIONS[engine]}/{name}_perf.parquet")


def gemm_bound(gpu, dtype, m, n, k):
    return bound(gpu, dtype, 2 * m * n * k, BYTES[dtype] * (m * n + m * k + n * k))


@functools.cache
def matrices(gpu, engine, dtype):
    d = table(gpu, "gemm", engine, "gemm")
    d = d[d.gemm_dtype == dtype].drop_duplicates(["m", "n", "k"])
    out = {}
    for (n, k), rows in d.groupby(["n", "k"]):
        rows = rows.sort_values("m")
        out[n, k] = [(m, max(ms, gemm_bound(gpu, dtype, m, n, k))) for m, ms in zip(rows.m, rows.latency)]
    return out


def along(points, x):
    return float(np.interp(x, [p[0] for p in points], [p[1] for p in points]))


def gemm(gpu, engine, dtype, m, n, k):
    known = matrices(gpu, engine, dtype)

    def site(n, k):
        points = known[n, k]
        if points[0][0] <= m <= points[-1][0]:
            return along(points, m)
        ends = points[-3:] if m > points[-1][0] else points[:3]
        shares = sorted(gemm_bound(gpu, dtype, a, n, k) / ms for a, ms in ends)
        return gemm_bound(gpu, dtype, m, n, k) / shares[len(shares) // 2]

    if (n, k) in known:
        return site(n, k)
    covers = [(a, b) for (a, b), p in known.items() if p[0][0] <= m <= p[-1][0]]
    far = lambda a, b: math.hypot(math.log2(a / n), math.log2(b / k))
    near = [s for s in covers if far(*s) <= 2]
    if not near:
        wide = n > max(a for a, _ in covers)
        near = [(a, b) for a, b in covers if abs(math.log2(b / k) if wide else math.log2(a / n)) <= 2]
    near = sorted(near, key=lambda s: (far(*s), s))[:4]
    weights = [1 / (far(*s) ** 2 + 1e-12) for s in near]
    share = sum(w * gemm_bound(gpu, dtype, m, *s) / site(*s) for w, s in zip(weights, near)) / sum(weights)
    return gemm_bound(gpu, dtype, m, n, k) / share


def nest(rows, columns):
    tree = {}
    for row in rows[[*columns, "latency"]].itertuples(index=False):
        at = tree
        for value in row[:-2]:
            at = at.setdefault(value, {})
        at.setdefault(row[-2], row[-1])
    return tree


def inside(tree, keys, root=None, level=0, scale=None, whole=None):
    """Return the interpolated time in tree at keys, or None outside of tree.

    At the level root, the square root of the time is linear. scale(keys) is the roofline time.
    """
    whole = list(keys) if whole is None else whole
    if level == len(keys):
        return tree
    x, known = keys[level], sorted(tree)
    if x in tree:
        return inside(tree[x], keys, root, level + 1, scale, whole)
    if x < known[0] or x > known[-1]:
        return None
    i = bisect.bisect(known, x)
    sides = [inside(tree[known[j]], keys, root, level + 1, scale, whole) for j in (i - 1, i)]
    if None in sides:
        for value, j in zip(sides, (i - 1, i)):
            if value is not None and scale is not None:
                moved = [*whole[:level], known[j], *whole[level + 1 :]]
                return value * scale(*whole) / scale(*moved)
        return None
    share = (x - known[i - 1]) / (known[i] - known[i - 1])
    if root == level:
        a, b = (math.sqrt(s) for s in sides)
        return (a + (b - a) * share) ** 2
    return sides[0] + (sides[1] - sides[0]) * share


def outside(tree, keys, scale):
    points = []

    def walk(node, at):
        if isinstance(node, dict):
            for value, below in node.items():
                walk(below, [*at, value])
        else:
            points.append((math.dist([math.log2(v) for v in at], [math.log2(v) for v in keys]), at, node))

    walk(tree, [])
    points.sort(key=lambda p: (p[0], p[1]))
    far, points = points[4][0], points[:4]
    weights = [((far - d) / (far * d)) ** 2 for d, _, _ in points]
    return scale(*keys) / (sum(w * scale(*at) / ms for w, (_, at, ms) in zip(weights, points)) / sum(weights))


def lookup(tree, keys, scale, root=None):
    """Return the time in tree at keys, interpolated or extrapolated."""
    found = inside(tree, keys, root, 0, scale)
    return outside(tree, keys, scale) if found is None else found


@functools.cache
def attention(gpu, engine, kind, kv):
    d = table(gpu, "attention", engine, f"{kind}_attention")
    d = d[(d.kv_cache_dtype == "bfloat16") & (d.attn_dtype == "bfloat16") & (d.head_dim == 128) & (d.window_size == 0)]
    d = d[(d.num_key_value_heads == kv) & (d.num_heads != kv)]
    if kind == "generation":
        return nest(d.assign(s=d.isl + d.step), ["num_heads", "batch_size", "s"])
    return nest(d, ["num_heads", "isl", "batch_size"])


def context(gpu, engine, heads, kv, batch, new, past):
    def light(heads, s, b):
        return bound(gpu, "bfloat16", 2 * b * s * s * heads * 128, 4 * b * heads * s * 128 + 4 * b * kv * s * 128)

    s = new + past
    return lookup(attention(gpu, engine, "context", kv), [heads, s, batch], light, 1) * (s * s - past * past) / (s * s)


def generation(gpu, engine, heads, kv, batch, length):
    def light(heads, b, s):
        return bound(gpu, "bfloat16", 4 * b * heads * 128 * (s - 1), b * (4 * heads * 128 + 4 * kv * (s - 1) * 128))

    lo, hi = max(int(length * 0.9), 1), max(int(length * 1.1), 1)
    tree = attention(gpu, engine, "generation", kv)
    return sum(lookup(tree, [heads, batch, lo + (hi - lo) * i // 4], light) for i in range(5)) / 5


def latent_generation(gpu, engine, heads, batch, length):
    def light(heads, b, s):
        return bound(gpu, "bfloat16", 2176 * b * heads * s, b * (2176 * heads + 1152 * (s - 1)))

    d = table(gpu, "mla", engine, "generation_mla")
    d = d[(d.mla_dtype == "bfloat16") & (d.kv_cache_dtype == "bfloat16")]
    return lookup(nest(d.assign(s=d.isl + d.step), ["num_heads", "batch_size", "s"]), [heads, batch, length], light)


def latent_context(gpu, engine, heads, batch, new, past):
    def light(heads, s, b):
        return bound(gpu, "bfloat16", b * heads * 320 * s * s, b * heads * 320 * 4 * s)

    d = table(gpu, "mla", engine, "context_mla")
    d = d[(d.mla_dtype == "bfloat16") & (d.kv_cache_dtype == "bfloat16")]
    s = new + past
    return lookup(nest(d, ["num_heads", "isl", "batch_size"]), [heads, s, batch], light, 1) * (s * s - past * past) / (s * s)


def module_generation(gpu, engine, gemm_type, kv, heads, batch, length):
    d = table(gpu, "mla", engine, "mla_generation_module")
    d = d[(d.gemm_type == gemm_type) & (d.kv_cache_dtype == kv) & (d.num_heads == heads)]
    return inside(nest(d.assign(s=d.isl + d.step), ["batch_size", "s"]), [batch, length])


def product(gpu, engine, dtype, post, tokens, heads):
    d = table(gpu, "mla_bmm", engine, "mla_bmm")
    d = d[(d.bmm_dtype == dtype) & (d.op_name == ("mla_gen_post" if post else "mla_gen_pre")) & (d.num_heads == heads)]
    return along(sorted(d.drop_duplicates("num_tokens")[["num_tokens", "latency"]].itertuples(index=False)), tokens)


def experts(gpu, engine, dtype, shape, distribution, tokens):
    hidden, inter, topk, count, tp, ep = shape

    def light(tokens):
        pairs = tokens * topk
        size = BYTES[dtype] * (2 * pairs / ep * hidden + 3 * pairs / ep * inter / tp + 3 * hidden * inter / tp * min(count / ep, pairs / ep))
        return bound(gpu, dtype, 6 * pairs * hidden * inter / (ep * tp), size)

    d = table(gpu, "moe", engine, "moe")
    d = d[(d.moe_dtype == dtype) & (d.distribution == distribution) & (d.kernel_source != "moe_torch_flow_min_latency")]
    for name, value in zip(("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"), shape):
        d = d[d[name] == value]
    points = sorted(d.drop_duplicates("num_tokens")[["num_tokens", "latency"]].itertuples(index=False))
    if tokens > points[-1][0]:
        return points[-1][1] * light(tokens) / light(points[-1][0])
    return along(points, tokens)


def all_reduce(gpu, engine, gpus, elements):
    d = table(gpu, "comm", engine, "custom_allreduce")
    d = d[(d.num_gpus == gpus) & ~d.kernel_source.str.endswith("_eager")].drop_duplicates("message_size")
    points = sorted(d[["message_size", "latency"]].itertuples(index=False))
    for size, ms in (points[0], points[-1]):
        if (elements - size) * (1 if size == points[-1][0] else -1) > 0:
            return ms * elements / size
    return along(points, elements)


def points():
    dice = random.Random(33)
    tokens = lambda: [1, 8, 4096, *(int(2 ** dice.uniform(0, 13)) for _ in range(5))]
    dense = {
        "h100-vllm": ("h100_sxm", "vllm", (16, 2), 4, [(2560, 8192), (8192, 2048), (14336, 8192), (8192, 7168), (32064, 8192)]),
        "rtxpro6000-vllm": ("rtx_pro_6000_server", "vllm", (32, 8), 0, [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096)]),
        "h100-sglang": ("h100_sxm", "sglang", (32, 4), 2, [(5120, 5120), (5120, 4096), (25600, 5120), (5120, 12800), (75968, 5120)]),
    }
    for file, (gpu, engine, heads, gpus, shapes) in dense.items():
        for n, k in shapes:
            for m in [*tokens(), 50000] if (n, k) in matrices(gpu, engine, "bfloat16") else tokens():
                yield file, "gemm", ["bfloat16", m, n, k], gemm(gpu, engine, "bfloat16", m, n, k)
        for _ in range(14):
            batch, length = dice.choice([1, 3, 8, 37, 128, 300]), int(2 ** dice.uniform(5, 17))
            yield file, "generation", [*heads, batch, length], generation(gpu, engine, *heads, batch, length)
        for _ in range(12):
            new, past = int(2 ** dice.uniform(4, 13)), dice.choice([0, 0, 512, 6000])
            yield file, "context", [*heads, 1, new, past], context(gpu, engine, *heads, 1, new, past)
        for _ in range(6 if gpus else 0):
            elements = int(2 ** dice.uniform(6, 31))
            yield file, "all_reduce", [gpus, elements], all_reduce(gpu, engine, gpus, elements)
    gpu, engine, file = "gb300", "sglang", "gb300-sglang"
    for dtype, n, k in (("bfloat16", 2112, 7168), ("bfloat16", 3072, 1536), ("bfloat16", 384, 7168), ("bfloat16", 40960, 7168), ("nvfp4", 1024, 7168)):
        for m in tokens():
            yield file, "gemm", [dtype, m, n, k], gemm(gpu, engine, dtype, m, n, k)
    for _ in range(14):
        batch, length = int(2 ** dice.uniform(0, 11)), int(2 ** dice.uniform(5, 17))
        yield file, "latent_generation", [32, batch, length], latent_generation(gpu, engine, 32, batch, length)
        yield file, "product", ["bfloat16", batch % 2, batch, 16], product(gpu, engine, "bfloat16", batch % 2, batch, 16)
    for _ in range(10):
        new, past = int(2 ** dice.uniform(4, 12)), dice.choice([0, 0, 512, 6000])
        yield file, "latent_context", [32, 1, new, past], latent_context(gpu, engine, 32, 1, new, past)
    for file, gpu, engine, dtype, shape in (
        ("gb300-sglang", "gb300", "sglang", "nvfp4", (7168, 2048, 8, 384, 4, 1)),
        ("b200-trtllm", "b200_sxm", "trtllm", "fp8_block", (7168, 2048, 8, 256, 8, 1)),
    ):
        for m in [*tokens(), 40000]:
            yield file, "experts", [engine, dtype, *shape, "power_law_1.01", m], experts(gpu, engine, dtype, shape, "power_law_1.01", m)
        for _ in range(6):
            elements, gpus = int(2 ** dice.uniform(6, 31)), shape[4]
            yield file, "all_reduce", [gpus, elements], all_reduce(gpu, engine, gpus, elements)
    file, gpu, engine = "b200-trtllm", "b200_sxm", "trtllm"
    for n, k in ((2112, 7168), (7168, 2048)):
        for m in tokens():
            yield file, "gemm", ["fp8_block", m, n, k], gemm(gpu, engine, "fp8_block", m, n, k)
    for _ in range(14):
        batch, length = int(2 ** dice.uniform(0, 6)), int(2 ** dice.uniform(5, 14))
        yield file, "module_generation", ["fp8_block", "fp8", 16, batch, length], module_generation(gpu, engine, "fp8_block", "fp8", 16, batch, length)
        yield file, "generation", [8, 1, batch, length], generation(gpu, engine, 8, 1, batch, length)


for file, op, arguments, ms in points():
    print(json.dumps({"file": file, "op": op, "args": arguments, "engine": file.split("-")[1], "ms": float(f"{ms:.6g}")}))
