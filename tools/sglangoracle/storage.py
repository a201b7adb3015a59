"""Storage behind SGLang's hierarchical cache: hashes in memory, and transfers that take logical time.

SGLang's own tree requests, drains and inserts pages. SGLang's own controller looks up hashes. The threads that read and write
storage are replaced by one reader and one writer. The reader and the writer run one job at a time, in batches. A batch
takes the time of its bytes at a bandwidth.
"""
from __future__ import annotations

import random
from collections import deque
from queue import Queue

from sglang.srt.managers.cache_controller import STORAGE_BATCH_SIZE, PrefetchAck
from sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller import HybridCacheController
from sglang.srt.utils import poll_timer


class Call:
    """A queue that calls a function with each item that is put into it."""

    def __init__(self, put):
        self.put = self.put_nowait = put


class Disk:
    """Runs one job at a time. A job is a list of pages, in batches."""

    def __init__(self, took, landed, over, stopped):
        self.took, self.landed, self.over, self.stopped = took, landed, over, stopped
        self.jobs = deque()
        self.free = float("-inf")

    def add(self, op, now):
        self.jobs.append([op, now, 0, 0, None])

    def advance(self, now):
        while self.jobs:
            job = self.jobs[0]
            op, put, done, batch, end = job
            if batch:
                if end > now:
                    return
                self.free = end
                job[2] = done = done + batch
                job[3] = 0
                self.landed(op, done, batch)
            else:
                begin = max(put, self.free)
                if begin > now:
                    return
                self.free = begin
            if done == len(op.hash_value) or self.stopped(op):
                self.jobs.popleft()
                self.over(op)
                continue
            job[3] = min(STORAGE_BATCH_SIZE, len(op.hash_value) - done)
            job[4] = self.free + self.took(job[3]) / 1e6

    def next_end(self):
        return [self.jobs[0][4]] if self.jobs and self.jobs[0][3] else []


class Storage:
    """Stand-in for the storage backend and for the threads of the controller."""

    def __init__(self, oracle, nanos):
        self.oracle = o = oracle
        self.keys = set()
        c, page = o.c, o.c.page_size
        self.reads = Disk(
            lambda n: nanos(c, n * page, c.storage_to_host_gbps),
            lambda op, done, n: self.cc.ack_prefetch_queue.put(
                PrefetchAck(rid=op.handle.rid, completed_tokens=done * page, operation=op)),
            lambda op: self.cc.ack_prefetch_queue.put(PrefetchAck(rid=op.handle.rid, completed_req=True, operation=op)),
            lambda op: op.is_terminated())
        self.writes = Disk(
            lambda n: nanos(c, n * page, c.host_to_storage_gbps),
            lambda op, done, n: self.keys.update(op.hash_value[done - n:done]),
            lambda op: self.cc.ack_backup_queue.put(op),
            lambda op: False)

    def start(self, cc):
        self.cc = cc
        cc.storage_backend = self
        cc.prefetch_hit_queue, cc.ack_prefetch_queue, cc.ack_backup_queue = Queue(), Queue(), Queue()
        cc.prefetch_sync_queue, cc.host_mem_release_queue = Queue(), Queue()
        cc.prefetch_queue = Call(self.query)
        cc.prefetch_buffer = Call(lambda op: self.reads.add(op, self.oracle.clock))
        cc.backup_queue = Call(lambda op: self.writes.add(op, self.oracle.clock))
        cc._init_extra_host_mem_release_queues()

    def query(self, op):
        self.writes.advance(self.oracle.clock)
        hashes, count = self.cc._storage_hit_query(op)
        op.hash_value, op.storage_hit_count = hashes, count
        self.cc.prefetch_hit_queue.put(op)

    def batch_exists(self, keys, extra_info=None):
        return next((i for i, k in enumerate(keys) if k not in self.keys), len(keys))

    def register_mem_host_pool_v2(self, *a):
        pass

    on_host_pools_registered = register_mem_host_pool = register_mem_host_pool_v2

    def get_stats(self):
        return None

    def advance(self):
        self.reads.advance(self.oracle.clock)
        self.writes.advance(self.oracle.clock)

    def has_news(self):
        cc = self.cc
        return any(q.qsize() for q in (
            cc.prefetch_hit_queue, cc.ack_prefetch_queue, cc.ack_backup_queue, cc.host_mem_release_queue))

    def ends(self):
        """Return the times of the next events that SGLang would notice."""
        waits = self.oracle.tree_cache._storage_prefetch_wait
        ongoing = self.oracle.tree_cache.ongoing_prefetch
        return self.reads.next_end() + self.writes.next_end() + [
            w.at + w.timeout_s * 1e3 + 1e-6 for h, w in ((h, w) for h, w in STARTED.items() if h in ongoing and h in waits)]


class Started:
    def __init__(self, at, timeout_s):
        self.at, self.timeout_s = at, timeout_s


STARTED = {}


def prepare(oracle, nanos):
    """Replace the threads of the cache controller by a Storage."""
    STARTED.clear()
    oracle.storage = s = Storage(oracle, nanos)
    HybridCacheController._start_storage_threads = lambda cc: s.start(cc)
    poll_timer.time = type("Time", (), {"perf_counter": staticmethod(lambda: oracle.clock / 1e3)})


def attach(oracle):
    """Run the disks when SGLang's tree checks for events, and record when the tree begins to wait for a prefetch."""
    tree, s = oracle.tree_cache, oracle.storage
    s.cc.storage_backend = s
    look, begin = tree.check_hicache_events, tree._start_storage_prefetch_wait

    def check():
        s.advance()
        look()
        s.advance()

    def wait(op):
        begin(op)
        w = tree._storage_prefetch_wait.get(op.handle)
        if w is not None and op.handle not in STARTED or w is not None and STARTED[op.handle].wait is not w:
            STARTED[op.handle] = x = Started(oracle.clock, w.timeout_s)
            x.wait = w

    tree.check_hicache_events, tree._start_storage_prefetch_wait = check, wait


# Defaults of the storage settings of a case.
DEFAULTS = {"hicache_storage_prefetch_policy": "timeout", "prefetch_threshold": 256, "prefetch_timeout_base": 1.0,
            "prefetch_timeout_per_ki_token": 0.25, "bandwidth_g2_to_g3_gbps": 5.0, "bandwidth_g3_to_g2_gbps": 5.0}


def draw(seed, s, fixed):
    r = random.Random(f"storage {seed}")
    drawn = {"hicache_storage_prefetch_policy": r.choice(["best_effort", "wait_complete", "timeout"]),
             "prefetch_threshold": r.choice([1, 32, 256]), "prefetch_timeout_base": r.choice([0.0, 0.01, 0.2, 1.0]),
             "prefetch_timeout_per_ki_token": r.choice([0.0, 0.02, 0.25]),
             "bandwidth_g2_to_g3_gbps": r.choice([0, 0.3, 2.0, 14.0]), "bandwidth_g3_to_g2_gbps": r.choice([0, 0.3, 2.0, 14.0]),
             "hicache_write_policy": r.choice(["write_through", "write_through_selective"])}
    return {**DEFAULTS, **s, **drawn, **fixed}


def settings(s):
    if not s.get("hicache_storage_backend"):
        return {}
    s = {**DEFAULTS, **s}
    return dict(storage={k: s[k] for k in DEFAULTS}, host_to_storage_gbps=s["bandwidth_g2_to_g3_gbps"],
                storage_to_host_gbps=s["bandwidth_g3_to_g2_gbps"])


def args(c):
    """Return the storage arguments of ServerArgs."""
    import json

    if not c.storage:
        return {}
    extra = {k: c.storage[k] for k in ("prefetch_threshold", "prefetch_timeout_base", "prefetch_timeout_per_ki_token")}
    return dict(hicache_storage_backend="sim", hicache_storage_prefetch_policy=c.storage["hicache_storage_prefetch_policy"],
                hicache_storage_prefetch_retry_max_attempts=0, hicache_storage_backend_extra_config=json.dumps(extra))


def given(s):
    """Return the storage settings of a case by the names of replay."""
    if not s.get("hicache_storage_backend"):
        return {}
    s = {**DEFAULTS, **s}
    extra = {k: s[k] for k in ("prefetch_threshold", "prefetch_timeout_base", "prefetch_timeout_per_ki_token")}
    return {"hicache_storage_backend": "sim", "hicache_storage_prefetch_retry_max_attempts": 0,
            "hicache_storage_backend_extra_config": extra,
            **{k: s[k] for k in ("hicache_storage_prefetch_policy", "bandwidth_g2_to_g3_gbps", "bandwidth_g3_to_g2_gbps")}}
