"""Run a release's own KV connectors, scheduler side and worker side, on the clock of the oracle.

Copies of KV blocks are a model. Each direction has a bandwidth and a queue of transfers, and copies one transfer at a time.
The worker receives a pass when the pass is planned and the worker has received all earlier passes. With each pass the worker:

- submits the stores of the previous pass, which begin when the device has computed all passes so far
- waits for the transfers that must end first
- reports the transfers that have ended

Loads begin at once. If the release submits loads after the pass, they begin when the device has computed the pass.
"""
import inspect
from collections.abc import MutableSet

from config import Bag

DEFAULTS = {"num_g2_blocks": 0, "kv_bytes_per_token": 0, "bandwidth_g1_to_g2_gbps": 14.0, "bandwidth_g2_to_g1_gbps": 14.0, "kv_offload_connector": "offloading"}
# Settings of prefill and decode engines (pd.py). If decode_num_gpu_blocks is 0, decode engines have num_gpu_blocks.
PD = {"kv_transfer": "pull", "prefill_workers": 0, "decode_workers": 0, "decode_num_gpu_blocks": 0, "kv_transfer_bandwidth": 0.0, "kv_transfer_latency_ms": 0.0}


class Part:
    """The scheduler output of a pass, with the metadata of one connector of a MultiConnector."""

    def __init__(self, out, i):
        self.out, self.kv_connector_metadata = out, out.kv_connector_metadata.metadata[i]

    def __getattr__(self, name):
        return getattr(self.out, name)


class Ordered(MutableSet):
    """A set that iterates in insertion order, so that a run does not depend on the hashes of strings."""

    def __init__(self, items=()):
        self.items = dict.fromkeys(items)

    def __contains__(self, item):
        return item in self.items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)

    def add(self, item):
        self.items[item] = None

    def discard(self, item):
        self.items.pop(item, None)

    def update(self, *others):
        for o in others:
            self.items.update(dict.fromkeys(o))

    def difference_update(self, other):
        for item in list(other):
            self.items.pop(item, None)

    def copy(self):
        return Ordered(self.items)


class Link:
    """One direction of copies: one transfer at a time."""

    def __init__(self, gbps):
        self.bytes_per_ms, self.busy, self.queue = gbps * 1e6, 0.0, []
        self.moves = 0  # number of transfers begun plus number of transfers ended

    def submit(self, job, at, size):
        took = size / self.bytes_per_ms if self.bytes_per_ms else 0.0
        self.busy = max(at, self.busy) + took
        self.queue.append((job, self.busy))
        self.moves += 1

    def ended(self, now):
        n = 0
        while n < len(self.queue) and self.queue[n][1] <= now:
            n += 1
        done, self.queue = self.queue[:n], self.queue[n:]
        self.moves += n
        return [job for job, _ in done]

    def end_of(self, jobs):
        return max((end for job, end in self.queue if job in jobs), default=0.0)


class Copies:
    """Stand-in for the worker that copies KV blocks."""

    def __init__(self, s):
        self.to_host, self.to_device = Link(s["bandwidth_g1_to_g2_gbps"]), Link(s["bandwidth_g2_to_g1_gbps"])
        self.block_bytes = float(s["block_size"]) * float(s["kv_bytes_per_token"])
        self.now = 0.0  # when the worker has received all passes so far (ms)
        self.computed = 0.0  # when the device has computed all passes so far (ms)
        self.load_after = False

    def submit_store(self, job, src, dst):
        self.to_host.submit(job, max(self.now, self.computed), len(src.block_ids) * self.block_bytes)
        return True

    def submit_load(self, job, src, dst, expedited=False):
        self.to_device.submit(job, max(self.now, self.computed) if self.load_after else self.now, len(dst.block_ids) * self.block_bytes)
        return True

    def transfer_async(self, job, spec):
        src, dst = spec
        return self.submit_store(job, src, dst) if src.medium() == "GPU" else self.submit_load(job, src, dst)

    def wait(self, jobs):
        self.now = max(self.now, self.to_host.end_of(jobs), self.to_device.end_of(jobs))

    def get_finished(self):
        return [Bag(job_id=j, success=True, transfer_time=None, transfer_size=None)
                for j in self.to_host.ended(self.now) + self.to_device.ended(self.now)]

    def shutdown(self):
        pass


class Backend(Copies):
    """Stand-in for the copies of SimpleCPUOffloadConnector. A pass has at most one transfer in each direction."""

    def launch_copy(self, src_blocks, dst_blocks, is_store, event_idx, events_list, wait_event=None):
        link, at = (self.to_host, max(self.now, self.computed)) if is_store else (self.to_device, self.now)
        link.submit(event_idx, at, len(src_blocks) * self.block_bytes)
        events_list.append((event_idx, Event(self, link.busy)))


class Event:
    """A device event that occurs at the end of a transfer."""

    def __init__(self, copies, end):
        self.copies, self.end = copies, end

    def query(self):
        return self.end <= self.copies.now

    def synchronize(self):
        self.copies.now = max(self.copies.now, self.end)


class Worker:
    """The worker side of the connector, with the calls of the release's model runner."""

    def __init__(self, config, kv_cache_config, s):
        import vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler as scheduler
        import vllm.v1.worker.gpu.kv_connector as runner
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
        from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole
        from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiConnector
        scheduler.set = Ordered
        if s["kv_offload_connector"] == "simple":
            import vllm.v1.simple_kv_offload.worker as simple
            simple.set = Ordered
        if config.kv_transfer_config.kv_connector == "MultiConnector":
            kind, config = MultiConnector._get_connector_classes_and_configs(config)[-1]
            self.connector = kind(config, KVConnectorRole.WORKER, kv_cache_config)
        else:
            self.connector = KVConnectorFactory.create_connector(config=config, role=KVConnectorRole.WORKER, kv_cache_config=kv_cache_config)
        if s["kv_offload_connector"] == "simple":
            self.copies = Backend(s)
            if self.connector.worker_handler:
                self.connector.worker_handler._backend = self.copies
        else:
            self.copies = Copies(s)
            self.connector.connector_worker.worker = self.copies
        post = inspect.signature(runner.ActiveKVConnector.post_forward).parameters
        self.copies.load_after = "defer_finalize" in post  # the release submits loads after the pass
        self.saves_nothing = "wait_for_save" in post  # empty passes of the release save nothing

    def begin(self, out, now, computed):
        """Receive a pass that was planned at the time now (ms), and return its earliest start time."""
        self.copies.now, self.copies.computed = max(now, self.copies.now), computed
        self.connector.handle_preemptions(out.kv_connector_metadata)
        self.connector.bind_connector_metadata(out.kv_connector_metadata)
        if not self.copies.load_after:
            self.connector.start_load_kv(None)
        return self.copies.now

    def end(self, out, computed):
        """Complete a pass with the end time computed (ms), and return the connector output for the scheduler."""
        from vllm.v1.outputs import KVConnectorOutput
        self.copies.computed = computed
        if self.copies.load_after:
            self.connector.start_load_kv(None)
        if out.total_num_scheduled_tokens or not self.saves_nothing:
            self.connector.wait_for_save()
        sent, received = self.connector.get_finished(out.finished_req_ids)
        told = KVConnectorOutput(finished_sending=sent or None, finished_recving=received or None)
        told.kv_connector_worker_meta = self.connector.build_connector_worker_meta()
        self.connector.clear_connector_metadata()
        return told


class Both:
    """The worker side of a MultiConnector: pd connects prefill and decode engines, host connects to host memory."""

    def __init__(self, pd, host):
        self.pd, self.host = pd, host
        self.reports = 0  # number of passes that reported transfers to or from host memory

    @property
    def reading(self):
        return self.pd.reading

    @property
    def links(self):
        return self.host.copies.to_host, self.host.copies.to_device

    @property
    def moves(self):
        return self.pd.moves + self.reports + sum(link.moves for link in self.links)

    def wakes(self):
        """Return the end time (ms) of the next transfer that a pass will report."""
        ends = (end for link in self.links for _, end in link.queue if end > self.host.copies.now)
        return min(self.pd.wakes(), min(ends, default=float("inf")))

    def copying(self, now):
        return any(end > now for link in self.links for _, end in link.queue)

    @property
    def pulled(self):
        return self.pd.pulled

    def begin(self, out, now, computed):
        start = self.host.begin(Part(out, 1), now, computed)
        self.pd.begin(Part(out, 0), start, computed)
        return start

    def end(self, out, computed):
        from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiKVConnectorWorkerMetadata
        told, host = self.pd.end(Part(out, 0), computed), self.host.end(Part(out, 1), computed)
        self.reports += any((host.finished_sending, host.finished_recving, host.kv_connector_worker_meta))
        told.finished_sending, told.finished_recving = host.finished_sending, host.finished_recving
        if host.kv_connector_worker_meta is not None:
            told.kv_connector_worker_meta = MultiKVConnectorWorkerMetadata(metadata=(None, host.kv_connector_worker_meta))
        return told


def in_order(connector):
    """Sort the finished requests by id before the scheduler side reads them, because a set has no fixed order."""
    build = connector.build_connector_meta

    def ordered(out):
        out.finished_req_ids = dict.fromkeys(sorted(out.finished_req_ids, key=str))
        return build(out)

    connector.build_connector_meta = ordered


def copies(connector):
    """Report whether the connector has pending stores or loads."""
    simple = getattr(connector, "scheduler_manager", None)
    return connector.has_pending_push_work() or simple and (simple.has_pending_stores() or bool(simple._reqs_to_load))
