"""The KV-cache events of SGLang. SGLang's own tree records the events, and SGLang's own reporter publishes them.

The name of a page has two numbers: the lowest id of the requests with this page and all pages before it, and the index of the
page in the request.
"""
import types

from sglang.srt.disaggregation.kv_events import BlockStored
from sglang.srt.managers.scheduler_components.kv_events_publisher import SchedulerKvEventsPublisher
from sglang.srt.managers.scheduler_components.metrics_reporter import SchedulerMetricsReporter


class Publisher(SchedulerKvEventsPublisher):
    """Records each batch of events with its time instead of sending it."""

    def __init__(self, o):
        self.enable_kv_cache_events = True
        self.tree_cache = o.tree_cache
        self.kv_event_publisher = self
        self.batches = []
        self.o = o
        self.tree_cache.take_events()  # discard earlier events

    def publish(self, batch):
        self.batches.append((self.o.clock, batch.events))


def follow(o):
    """Add SGLang's own event publisher and metrics reporter to an oracle."""
    usage = types.SimpleNamespace(get_prefill_usage_msg_parts=list, get_decode_usage_msg_parts=list)
    o.pool_stats_observer = types.SimpleNamespace(get_pool_stats=lambda: usage)
    o.kv_events_publisher = Publisher(o)
    o.metrics_reporter = SchedulerMetricsReporter(
        scheduler=o, metrics_collector=None, metrics_collector_context=types.SimpleNamespace(
            enable_metrics=False, is_stats_logging_rank=True, current_scheduler_metrics_enabled=False,
            enable_kv_cache_events=True))


def named(o, page):
    """Return the batches of events: time (ms), and pages that are stored under a parent or removed.

    Consecutive pages of a request are [request, first index, last index + 1].
    """
    names, paths = {}, {}  # names of pages by path; paths by (path of the previous page, tokens of the page)
    for r in sorted(o.by_rid.values(), key=lambda r: r.rid):
        tokens, path = list(r.tokens) + r.outputs, 0
        for i in range(len(tokens) // page):
            key = path, tuple(tokens[i * page:(i + 1) * page])
            path = paths.setdefault(key, len(paths) + 1)
            names.setdefault(path, [r.rid, i])
    cached = {None: 0}  # paths by block hash
    out = []
    for at, events in o.kv_events_publisher.batches:
        batch = []
        for e in events:
            assert e.medium == "GPU", e
            if not isinstance(e, BlockStored):
                batch.append({"removed": runs(names[cached[h]] for h in e.block_hashes)})
                continue
            assert e.block_size == page and len(e.token_ids) == page * len(e.block_hashes), e
            path, stored = cached[e.parent_block_hash], []
            above = names.get(path)
            for i, h in enumerate(e.block_hashes):
                path = paths[path, tuple(e.token_ids[i * page:(i + 1) * page])]
                assert cached.setdefault(h, path) == path, "two contents under one hash"
                stored.append(names[path])
            batch.append({"parent": above, "stored": runs(stored)} if above else {"stored": runs(stored)})
        out.append({"at": at, "events": batch})
    return out


def runs(pages):
    out = []
    for request, i in pages:
        if out and out[-1][0] == request and out[-1][2] == i:
            out[-1][2] += 1
        else:
            out.append([request, i, i + 1])
    return out
