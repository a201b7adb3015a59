"""SGLang's hierarchical cache on the CPU, with its own tree, host pool and cache controller. Copies take logical time.

The code that moves bytes is replaced. A copy takes the time of its bytes at a bandwidth. A copy to the host begins when the
last launched pass and the previous copy have ended. A copy to the device begins with the pass that needs it. The pass computes
a layer when the data of the layer has arrived. The controller queries or awaits the end of a copy, as in SGLang.
"""
from __future__ import annotations

import contextlib
import random
import types

import storage
import torch

from sglang.srt.managers import cache_controller
from sglang.srt.mem_cache.hybrid_cache import hybrid_cache_controller  # noqa: F401
from sglang.srt.mem_cache.l2_transfer import TransferCompletion
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.mem_cache.pool_host import common


class Event:
    """A device event that occurs at a time of the oracle's clock."""

    oracle = None

    def __init__(self, at=float("-inf")):
        self.at = at

    def record(self, *a):
        pass

    def wait(self, *a):
        pass

    def query(self):
        return self.oracle.clock >= self.at

    def synchronize(self):
        o = self.oracle
        o.clock = max(o.clock, self.at)

    def elapsed_time(self, other):
        return 0.0


class Stream:
    def wait_stream(self, other):
        pass

    def wait_event(self, event):
        pass


class Transfers:
    """Stand-in for L2TransferEngine."""

    oracle = None

    def __init__(self, io_backend):
        self.device_to_host_stream = Stream()
        self.host_to_device_stream = Stream()
        self.written_at = 0.0
        self.oracle.transfers = self
        self.pending = []

    def submit_device_to_host(self, transfers):
        o = self.oracle
        n = sum(len(t.host_indices) for t in transfers)
        o.written_tokens += n
        begin = max(o.clock, o.gpu_free, self.written_at)
        self.written_at = begin + nanos(o.c, n, o.c.to_host_gbps) / 1e6
        self.pending.append(self.written_at)
        return TransferCompletion(Event(begin), Event(self.written_at), False)

    def submit_host_to_device(self, transfers, *, transfer_layer_id_max, start_event=None, on_layer_done=None):
        o = self.oracle
        n = sum(len(t.host_indices) for t in transfers)
        o.loaded_tokens += n
        begin = max(o.clock, o.gpu_free)
        o.load_nanos = nanos(o.c, n, o.c.to_device_gbps)
        end = begin + o.load_nanos / 1e6
        self.pending.append(end)
        return TransferCompletion(Event(begin), Event(end), False)

    def next_end(self, now):
        """Return when the next copy ends, or None."""
        self.pending = [t for t in self.pending if t > now]
        return min(self.pending, default=None)


def prepare(oracle):
    """Replace SGLang's device module and transfer engine by stand-ins with the clock of oracle."""
    Event.oracle = Transfers.oracle = oracle
    module = types.SimpleNamespace(
        Event=lambda *a, **k: Event(), Stream=lambda *a, **k: Stream(), current_stream=Stream,
        stream=lambda s: contextlib.nullcontext())
    cache_controller.device_module = module
    cache_controller.L2TransferEngine = Transfers
    common._cuda_host_register = common._cuda_host_unregister = lambda *a, **k: None


def nanos(c, tokens, gbps):
    """Return the duration of a copy in whole ns; 0 if the bandwidth is 0."""
    return round(tokens * c.bytes_per_token / gbps) if gbps else 0


def load_pass(c, ms, load):
    """Return the duration (ms) of a pass in which each layer waits for its share of a copy to the device."""
    ns = round(ms * 1e6)
    return max(ns + load // c.layers, load + ns // c.layers) / 1e6


def device_pool(c):
    """Return a minimal KV cache: one layer, one head, one dimension."""
    return MHATokenToKVPool(
        c.pool, page_size=c.page_size, dtype=torch.bfloat16, head_num=1, head_dim=1, layer_num=1, device="cpu",
        enable_memory_saver=False)


# Defaults of the HiCache settings of a case.
DEFAULTS = {"hicache_ratio": 2.0, "hicache_write_policy": "write_through", "kv_bytes_per_token": 131072,
            "bandwidth_g1_to_g2_gbps": 14.0, "bandwidth_g2_to_g1_gbps": 14.0, "hicache_layers": 32}


def draw(seed, case, fixed):
    """Return the case, with random HiCache settings if HiCache is enabled. Other draws of the seed stay the same."""
    s, *rest = case
    if s.get("enable_hierarchical_cache"):
        r = random.Random(f"hicache {seed}")
        drawn = {"hicache_ratio": r.choice([0.1, 0.4, 1.0, 2.0, 8.0]),
                 "hicache_write_policy": r.choice(["write_through", "write_through_selective", "write_back"]),
                 "bandwidth_g1_to_g2_gbps": r.choice([0, 0.3, 2.0, 14.0]),
                 "bandwidth_g2_to_g1_gbps": r.choice([0, 0.3, 2.0, 14.0]), "hicache_layers": r.choice([1, 4, 32])}
        s = {**DEFAULTS, **s, **drawn, **fixed}
        if s.get("hicache_storage_backend"):
            s = storage.draw(seed, s, fixed)
    return s, *rest


def settings(s):
    """Return the HiCache settings of a case by the names of the oracle."""
    if not s.get("enable_hierarchical_cache"):
        return {}
    s = {**DEFAULTS, **s}
    return dict(hicache=True, hicache_ratio=s["hicache_ratio"],
                hicache_write_policy=s["hicache_write_policy"], bytes_per_token=s["kv_bytes_per_token"],
                to_host_gbps=s["bandwidth_g1_to_g2_gbps"], to_device_gbps=s["bandwidth_g2_to_g1_gbps"],
                layers=s["hicache_layers"], **storage.settings(s))


def given(s):
    """Return the HiCache settings of a case by the names of replay."""
    if not s.get("enable_hierarchical_cache"):
        return {}
    s = {**DEFAULTS, **s}
    return {"enable_hierarchical_cache": True, **{k: s[k] for k in DEFAULTS}, **storage.given(s)}


def columns(x):
    """Return [tokens found only in host memory] for a row of the oracle, and [] for a row of replay."""
    return [x["host"] or 0] if "host" in x else []
