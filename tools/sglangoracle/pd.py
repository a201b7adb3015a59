"""Prefill and decode workers of SGLang, with SGLang's own loops and queues for requests with KV-cache transfers.

The network is a model. A request arrives at a decode worker when its prompt is computed elsewhere. Its KV cache arrives when
the decode worker has memory for it (SGLang's fake receiver). A prefill worker sends KV cache to peers that always have memory.
A transfer takes time on the logical clock. The transfers of a request run one at a time.
"""
from __future__ import annotations

import types

import oracle
from oracle import Quiet, sched, torch

from sglang.srt.disaggregation import decode as decode_module  # noqa: E402
from sglang.srt.disaggregation import prefill as prefill_module  # noqa: E402
from sglang.srt.disaggregation import utils  # noqa: E402
from sglang.srt.disaggregation.base.conn import KVPoll  # noqa: E402
from sglang.srt.disaggregation.fake.conn import FakeKVReceiver  # noqa: E402
from sglang.srt.managers import schedule_batch  # noqa: E402


def alone():
    """Return the parallel layout of a single rank."""
    group = types.SimpleNamespace(cpu_group=None)
    return types.SimpleNamespace(
        attn_tp_group=group, attn_tp_cpu_group=None, attn_cp_cpu_group=None, tp_rank=0, pp_rank=0, pp_size=1, attn_tp_rank=0,
        attn_tp_size=1, attn_cp_size=1, attn_dp_size=1, dp_rank=0)


def poll(pollers, *a, **k):
    return [int(p.poll()) for p in pollers]


class Over:
    """A wrapper that replaces some methods of an object."""

    def __init__(self, of, **methods):
        self.__dict__.update(methods, _of=of)

    def __getattr__(self, name):
        return getattr(self._of, name)


class Worker(oracle.Oracle):
    def _build(self, args, longest):
        for module in (decode_module, prefill_module):
            module.get_parallel = alone
            module.is_mla_backend = lambda pool: False
        prefill_module.poll_and_all_reduce_attn_cp_tp_group = poll
        decode_module.poll_and_all_reduce = poll
        super()._build(args, longest)
        self.disaggregation_mode = sched.DisaggregationMode(self.c.role)
        object.__setattr__(self.batch_result_processor, "disaggregation_mode", self.disaggregation_mode)
        self.attn_tp_cpu_group = self.attn_cp_cpu_group = None
        self.tp_size, self.random_seed = 1, 0
        self.schedule_stream = self.forward_stream = Quiet()
        self.kv_checksum_computer = None
        self.disagg_metadata_buffers = Quiet()
        self.req_to_metadata_buffer_idx_allocator = utils.ReqToMetadataIdxAllocator(self.metadata_rows())

    def _submit_req(self, req):
        req.bootstrap_host, req.bootstrap_room = utils.FAKE_BOOTSTRAP_HOST, int(req.rid)

    def _add_request_to_queue(self, req, is_retracted=False):
        if not is_retracted:
            self._submit_req(req)
        super()._add_request_to_queue(req, is_retracted)

    def next_event(self):
        return None

    def on_idle(self):
        """Advance the clock to the next event.

        If requests wait for pages in transfer, the next event is the end of a transfer. SGLang itself would poll for the end.
        """
        if self.waiting_queue and self.next_event() is not None:
            self.clock, self.idle_turns = self.next_event(), 0
            return
        due = [t for t in (self.future[0].arrival if self.future else None, self.next_event()) if t is not None]
        if self.is_done():
            self.new_token_ratio_tracker.reset()
        self.idle_turns += 1
        if due and (self.is_done() or self.idle_turns > 4):
            self.clock = max(self.clock, min(due))
            if self.next_event() is not None:
                self.idle_turns = 0
        elif self.idle_turns > 64:
            raise oracle.Stall("nothing can run")

    def run(self):
        with torch.inference_mode():
            getattr(self, f"event_loop_{self.c.loop}_disagg_{self.c.role}")()
        return self


class Decode(Worker):
    def metadata_rows(self):
        return self.req_to_token_pool.size * 2

    def _rows(self, longest):
        return decode_module.DecodeReqToTokenPool(
            self.c.max_running_requests, longest, "cpu", False, sched.get_disagg().disaggregation_decode_extra_slots)

    def _build(self, args, longest):
        schedule_batch.backup_kv_cache = lambda *a: True
        decode_module.restore_kv_cache = lambda *a: None
        self.c.disable_cache = True
        super()._build(args, longest)
        rows = self.metadata_rows()
        self.disagg_metadata_buffers = utils.MetadataBuffers(
            rows, hidden_size=16, hidden_states_dtype=torch.float32, max_sampling_mask_tokens=0)
        decode_module.DecodePreallocQueue._init_kv_manager = lambda q: Quiet(kv_args=types.SimpleNamespace(state_types=[]), prefill_info_table={})
        self.tp_worker.is_hybrid_swa = False
        self.disagg_decode_transfer_queue = decode_module.DecodeTransferQueue(
            req_to_metadata_buffer_idx_allocator=self.req_to_metadata_buffer_idx_allocator,
            metadata_buffers=self.disagg_metadata_buffers, scheduler=self, tree_cache=self.tree_cache)
        self.disagg_decode_prealloc_queue = decode_module.DecodePreallocQueue(
            req_to_token_pool=self.req_to_token_pool, token_to_kv_pool_allocator=self.token_to_kv_pool_allocator,
            draft_token_to_kv_pool=None,
            req_to_metadata_buffer_idx_allocator=self.req_to_metadata_buffer_idx_allocator,
            metadata_buffers=self.disagg_metadata_buffers, scheduler=self, transfer_queue=self.disagg_decode_transfer_queue,
            tree_cache=self.tree_cache, gpu_id=0, bootstrap_port=0, max_total_num_tokens=self.max_total_num_tokens,
            num_reserved_decode_tokens=sched.get_disagg().num_reserved_decode_tokens,
            transfer_backend=utils.TransferBackend.FAKE)
        p = self.batch_result_processor
        let_in = p.process_batch_result_prebuilt

        def prebuilt(batch):
            fresh = [q for q in batch.reqs if self.by_rid[q.rid].first is None]
            let_in(batch)
            for q in fresh:
                r = self.by_rid[q.rid]
                r.first = r.last = self.clock
                r.got, r.hit = len(q.output_ids), 0

        self.batch_result_processor = Over(p, process_batch_result_prebuilt=prebuilt)

    def is_done(self):
        p, t = self.disagg_decode_prealloc_queue, self.disagg_decode_transfer_queue
        return super().is_done() and not p.queue and not p.retracted_queue and not t.queue


class Sender:
    """Stand-in for SGLang's sender of KV cache. A transfer takes time on the logical clock."""

    def __init__(self, mgr, bootstrap_addr, bootstrap_room, req_has_disagg_prefill_dp_rank=False):
        self.worker = mgr.worker
        self.arrives, self.sent, self.over = 0.0, 0, False

    def poll(self):
        if not self.over:
            return KVPoll.WaitingForInput
        return KVPoll.Success if self.worker.clock >= self.arrives else KVPoll.Transferring

    def pop_decode_prefix_len(self):
        return 0

    def init(self, pages, aux_index=None):
        pass

    def should_send_kv_chunk(self, pages, last_chunk):
        return pages > 0 or last_chunk

    def get_max_transfer_tokens(self):
        return None

    def send(self, kv_indices, state_indices=None, num_kv_tokens=None):
        w = self.worker
        gbps, size = w.c.transfer
        delay = float(num_kv_tokens) * float(size) / (gbps * 1e9) * 1000.0 if gbps > 0 and size else 0.0
        now = w.clock if w.sends_at is None else w.sends_at
        if num_kv_tokens > 0:
            if self.arrives > now:
                delay += self.arrives - now
            self.arrives = now + delay

    def clear(self):
        pass


class Prefill(Worker):
    def metadata_rows(self):
        return 1 << 16  # more than any case needs

    def _build(self, args, longest):
        super()._build(args, longest)
        prefill_module.PrefillBootstrapQueue._init_kv_manager = lambda q: types.SimpleNamespace(
            worker=self, kv_args=types.SimpleNamespace(state_types=[]))
        prefill_module.get_kv_class = lambda backend, kind: Sender
        self.tp_worker.model_runner.effective_logical_max_total_num_tokens = self.c.pool
        self.disagg_prefill_bootstrap_queue = prefill_module.PrefillBootstrapQueue(
            token_to_kv_pool=Quiet(), draft_token_to_kv_pool=None,
            req_to_metadata_buffer_idx_allocator=self.req_to_metadata_buffer_idx_allocator,
            metadata_buffers=self.disagg_metadata_buffers, gpu_id=0, bootstrap_port=0,
            max_total_num_tokens=self.max_total_num_tokens, scheduler=self, scheduler_stage_metrics=Quiet(),
            transfer_backend=utils.TransferBackend.FAKE)
        self.disagg_prefill_inflight_queue = []
        self.disagg_prefill_pending_chunk_rids = set()
        self.enable_staging = False
        self.enable_overlap_mlx = False
        if self.enable_overlap:
            torch.cuda.Event = lambda **k: types.SimpleNamespace(record=lambda s=None: None)

    def run_batch(self, batch, pp_proxy_tensors=None):
        # The cached prefix is sent when this pass begins, because the previous pass may write to it.
        self.sends_at = max(self.clock, self.gpu_free)
        for q in batch.reqs:
            self.maybe_send_cached_prefix_chunk(q)
        self.sends_at = None
        return super().run_batch(batch, pp_proxy_tensors)

    sends_at = None

    def _send_kv_chunk(self, req, last_chunk=False, end_idx=None):
        super()._send_kv_chunk(req, last_chunk=last_chunk, end_idx=end_idx)
        if last_chunk:
            req.disagg_kv_sender.over = True
            r = self.by_rid[req.rid]
            r.last = max(self.clock, req.disagg_kv_sender.arrives)

    def process_batch_result(self, batch, result):
        self.clock = max(self.clock, result.ends)
        before = {q.rid: len(q.output_ids) for q in batch.reqs}
        self.process_batch_result_disagg_prefill(batch, result)
        for q in batch.reqs:
            if len(q.output_ids) > before[q.rid]:
                r = self.by_rid[q.rid]
                r.got, r.first = 1, self.clock

    def next_event(self):
        due = [q.disagg_kv_sender.arrives for q in self.disagg_prefill_inflight_queue]
        return min((t for t in due if t > self.clock), default=None)

    def is_done(self):
        return (super().is_done() and not self.disagg_prefill_inflight_queue
                and not self.disagg_prefill_bootstrap_queue.queue)


def worker(c, requests, times):
    return {"prefill": Prefill, "decode": Decode}[c.role](c, requests, times)
