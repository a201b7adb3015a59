"""Run SGLang's own scheduler on the CPU, with a logical clock and without a model.

The decisions are made by objects of the installed package: Scheduler (with its batch loops), SchedulePolicy, PrefillAdder,
ScheduleBatch, Req, the token and page allocators, ReqToTokenPool, the prefix cache and the batch result processor.
These parts are replaced:

- computation: run_batch returns made-up tokens and takes the time of a model
- input: requests are read from a list when the clock reaches their arrival
- reports: streams, metrics and publishers do nothing
"""
from __future__ import annotations

import json
import os
import tempfile
import types
from array import array
from collections import deque
from fractions import Fraction

os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
for _name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
    os.environ.setdefault(_name, "1")

import order  # noqa: E402
import stubs  # noqa: E402

stubs.install(["sgl_kernel"])

import logging  # noqa: E402
import warnings  # noqa: E402

warnings.filterwarnings("ignore")

import torch  # noqa: E402

torch.set_num_threads(1)

import windows  # noqa: E402
from sglang.srt.managers import scheduler as sched  # noqa: E402
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch  # noqa: E402
from sglang.srt.managers.utils import GenerationBatchResult, validate_input_length  # noqa: E402
from sglang.srt.mem_cache.cache_init_params import CacheInitParams  # noqa: E402
from sglang.srt.sampling.sampling_params import SamplingParams  # noqa: E402

import drafts  # noqa: E402
import events  # noqa: E402
import hicache  # noqa: E402
import storage  # noqa: E402

logging.disable(logging.WARNING)

VERSION = __import__("importlib.metadata").metadata.version("sglang")


class Config:
    """The settings of a run, as in SGLang's flags. Sizes are in tokens."""

    page_size = 1
    pool = 16384
    max_prefill_tokens = 16384
    chunked_prefill_size = 8192
    max_running_requests = 4096
    prefill_max_requests = None
    schedule_policy = "fcfs"
    conservativeness = 1.0
    disable_cache = False
    mixed_chunk = False
    sliding_window_size = None  # tokens of the window of sliding-window layers; None: no such layers
    swa_full_tokens_ratio = 0.8  # size of the pool of sliding-window layers, relative to the full pool
    hicache = False
    hicache_ratio = 2.0
    hicache_write_policy = "write_through"
    bytes_per_token = 131072
    to_host_gbps = to_device_gbps = 14.0
    layers = 32
    storage = None  # storage behind host memory: the settings of storage.py
    host_to_storage_gbps = storage_to_host_gbps = 5.0
    loop = "normal"  # event loop of SGLang: normal or overlap
    tree = "default"  # SGLang's default cache; radix: the older RadixCache; python: the default cache with its Python core
    ignore_eos = False  # as in a client's request; the output length is the same with both values
    order = order.settings({})  # priorities, retraction and eviction (order.py)
    clip_outputs = True  # SGLang shortens outputs that do not fit the pool
    events = False  # record the published KV-cache events
    decode_log_interval = 40
    passes = True
    ranks = 1  # number of data-parallel attention ranks
    load_balance_method = "auto"
    speculative_algorithm = None  # drafts.py describes speculative decoding
    speculative_num_steps = 3
    speculative_eagle_topk = 1
    speculative_num_draft_tokens = 4
    speculative_config = None
    role = "null"  # role of the worker (pd.py): null, prefill or decode
    reserved_decode = 512
    transfer = (0.0, 0)  # GB/s to decode workers, bytes of KV cache per token

    def __init__(self, **kw):
        for k, v in kw.items():
            if not hasattr(type(self), k):
                raise TypeError(f"no setting {k}")
            setattr(self, k, v)


class Polynomial:
    """Replay's pass times without a timing profile, in ms, rounded to whole nanoseconds."""

    @staticmethod
    def _ns(ms):
        s = ms / 1000.0
        n = round(s * 1e9)
        if abs(s * 1e9 - n) > 0.49:  # near a tie: round the exact value
            n = round(Fraction(s) * 10**9)
        return (n / 1e9) * 1000.0

    def prefill(self, n, isl, prefix):
        t = float(n * max(isl - prefix, 0))
        return self._ns(max(4.209989e-07 * (t * t) + 1.518344e-02 * t + 1.650142e01, 0))

    def decode(self, n, active, context, capacity):
        p = active / capacity
        return self._ns(max(-25.74 * (p * p) + 54.01 * p + 5.74, 1))


class Quiet:
    """Stand-in for parts that only report. It has every attribute, can be called, and is false."""

    def __init__(self, **kw):
        self.__dict__.update(kw)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Quiet()

    def __call__(self, *a, **k):
        return None

    def __bool__(self):
        return False

    def __add__(self, other):
        return other

    __radd__ = __iadd__ = __add__

    def __enter__(self):
        return self

    def __exit__(self, *a):
        return False


_MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 64,
    "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1, "vocab_size": 32000,
    "max_position_embeddings": 4194304, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5, "bos_token_id": 1,
    "eos_token_id": 2, "tie_word_embeddings": False, "head_dim": 64,
}
_model_dir = None


def model_dir():
    global _model_dir
    if _model_dir is None:
        _model_dir = tempfile.TemporaryDirectory(prefix="sglang-oracle-")
        with open(os.path.join(_model_dir.name, "config.json"), "w") as f:
            json.dump(_MODEL, f)
    return _model_dir.name


def server_args(c: Config):
    from sglang.srt.server_args import ServerArgs

    return ServerArgs(
        model_path=model_dir(), skip_tokenizer_init=True, device="cpu", load_format="dummy",
        page_size=c.page_size, max_total_tokens=c.pool, max_prefill_tokens=c.max_prefill_tokens,
        chunked_prefill_size=c.chunked_prefill_size, max_running_requests=c.max_running_requests,
        prefill_max_requests=c.prefill_max_requests, schedule_policy=c.schedule_policy, schedule_conservativeness=c.conservativeness,
        disable_radix_cache=c.disable_cache, enable_mixed_chunk=c.mixed_chunk,
        **c.order,
        disable_overlap_schedule=c.loop != "overlap", disable_cuda_graph=True, attention_backend="torch_native",
        tp_size=c.ranks, attn_dp_size=c.ranks, load_balance_method=c.load_balance_method,
        decode_log_interval=c.decode_log_interval,
        disaggregation_mode=c.role, disaggregation_transfer_backend="fake" if c.role == "decode" else "mooncake",
        num_reserved_decode_tokens=c.reserved_decode,
        **(dict(enable_hierarchical_cache=True, hicache_ratio=c.hicache_ratio,
                hicache_write_policy=c.hicache_write_policy, **storage.args(c)) if c.hicache else {}),
    )


class Request:
    def __init__(self, rid, arrival, tokens, output, priority=None):
        self.rid, self.arrival, self.tokens, self.output = rid, arrival, tokens, output
        self.priority, self.queued = priority, False
        self.first = self.last = None
        self.hit = self.host_hit = None
        self.got = 0
        self.retractions = 0
        self.admissions = []
        self.outputs = []  # output tokens
        self.clipped = None
        self.refused = False  # True if the prompt is too long
        self.aborted = None  # when the request was aborted for lack of memory (ms)


class Stall(RuntimeError):
    pass


class Oracle(sched.Scheduler):
    """A Scheduler without worker, sockets and streams."""

    def __init__(self, c: Config, requests, times=None):
        self.c = c
        self.times = times or Polynomial()
        self.clock = 0.0
        self.gpu_free = 0.0
        self.future = deque(sorted(requests, key=lambda r: (r.arrival, r.rid)))
        self.by_rid = {name(r): r for r in requests}
        self.log = []
        self.next_token = 1 << 40
        self.idle_turns = 0
        self.retracted_now = []
        self.written_tokens = self.loaded_tokens = self.load_nanos = 0
        self.transfers = None
        if c.hicache:
            hicache.prepare(self)
        self.storage = None
        if c.storage:
            storage.prepare(self, hicache.nanos)
        args = server_args(c)
        sched.publish(args, role="scheduler", ranks=sched.SpawnRanks(world_rank=0, dp_rank=None, gpu_id=0))
        self.drafts = drafts.Drafts(
            c.speculative_algorithm, c.speculative_num_steps, c.speculative_eagle_topk, c.speculative_num_draft_tokens,
            c.speculative_config)
        self.drafts.override(sched.get_context())
        longest = max((len(r.tokens) + r.output for r in requests), default=1) + c.page_size + 8 + self.drafts.room(c.page_size)
        self._build(args, longest)

    # -- construction --

    def _build(self, args, longest):
        c = self.c
        S = sched
        self.server_args = args
        self.device = "cpu"
        self.schedule_policy = c.schedule_policy
        self.enable_priority_scheduling = args.enable_priority_scheduling
        self.abort_on_priority_when_disabled = False
        self.schedule_low_priority_values_first = args.schedule_low_priority_values_first
        order.pin_sets()
        self.priority_scheduling_preemption_threshold = S.get_schedule().priority_scheduling_preemption_threshold
        self.enable_lora = self.enable_lora_overlap_loading = False
        self.enable_overlap = c.loop == "overlap"
        self.enable_overlap_mlx = self.enable_pdmux = False
        self.spec_algorithm = S.SpeculativeAlgorithm.from_string(c.speculative_algorithm)
        self.page_size = c.page_size
        self.enable_hierarchical_cache = c.hicache
        self.enable_lmcache = False
        self.enable_hicache_storage = c.storage is not None
        self.enable_session_radix_cache = self.enable_unified_cache_external_linker = False
        self.enable_hisparse = self.enable_unified_memory = self.attn_dp_enabled = False
        self.enable_decode_hicache = False
        self.max_new_tokens_limit = None
        self.model_config = Quiet(
            is_encoder_decoder=False, vocab_size=1 << 60, is_generation=True, is_multimodal=False, hf_config=None,
            context_len=1 << 30, hf_eos_token_id=None, self_opened_think_start_ids=None, think_end_id=None,
            think_end_ids=None,
        )
        self.is_generation = True
        self.forward_ct = 0
        self.processed_tokens_counter = 0
        self.max_total_num_tokens = c.pool
        self.max_prefill_tokens = c.max_prefill_tokens
        self.max_running_requests = c.max_running_requests
        self.max_queued_requests = None
        self.max_req_len = min((1 << 30) - 1, c.pool - 1)
        self.min_free_slots_delayer = None
        S.get_context().override("oracle", pp_max_micro_batch_size=c.max_running_requests)
        self.draft_worker = None
        self.tp_worker = self.model_worker = Quiet(model_runner=Quiet(attn_backend=None, prefill_aware_swa=False))
        self.req_to_token_pool = self._rows(longest)
        self.token_to_kv_pool_allocator = self._allocator()
        self.kv_shard_widening = 1
        self.disable_radix_cache = c.disable_cache
        self.tree_cache = self._tree()
        if c.storage:
            storage.attach(self)
        self.is_hybrid_swa = self.is_hybrid_ssm = False
        self.sliding_window_size = self.full_tokens_per_layer = self.swa_tokens_per_layer = None
        if c.sliding_window_size:
            windows.set_scheduler(self, c)
        self.disaggregation_mode = S.DisaggregationMode.NULL
        self.hisparse_coordinator = self.decode_offload_manager = None
        self.dllm_config = None
        self.truncation_align_size = None
        self.rust_server = None
        self.scheduler_stage_metrics = Quiet()
        self.metrics_reporter = Quiet(
            enable_metrics=False, num_generated_tokens=0, forward_ct_decode=0, scheduler_stage_metrics=Quiet())
        self.metrics_collector = None
        self.init_running_status()
        # Settings of chunked prefill, without the checks of the model.
        s = S.get_schedule()
        size = s.chunked_prefill_size
        self.chunked_prefill_size = size if size is not None and size > 0 else None
        self.prefill_decode_interval = s.prefill_decode_interval or 0
        self._prefill_decode_interval_remaining = 0
        self.prefill_decode_interval_min_bs = s.prefill_decode_interval_min_bs
        self.chunked_req = self._pending_chunked_abort_req = None
        self.is_mixed_chunk = self.chunked_prefill_size is not None and s.enable_mixed_chunk
        self.dynamic_chunk_sizer = None
        self.init_schedule_policy()
        self.shuffles = 0
        sched.SchedulePolicy._sort_randomly = staticmethod(self._shuffle)
        self.require_mlp_sync = False
        self.grammar_manager = Quiet(has_waiting_grammars=lambda: False)
        self.ngram_embedding_manager = Quiet(prepare_for_forward=lambda b, chunked_req=None: b)
        self.dp_attn_adapter = Quiet(
            maybe_prepare_mlp_sync_batch=lambda b, need_sync=None: b, maybe_convert_decode_to_extend=lambda b: b)
        self.ipc_channels = Quiet()
        self.output_streamer = Quiet()
        self.load_publisher = self.kv_events_publisher = Quiet()
        self.load_inquirer = Quiet(_get_num_pending_tokens=lambda **k: 0)
        self.load_snapshot_writer = None
        self.lora_drainer = None
        self.enable_fpm = False
        self._war_barrier_enabled = False
        self.external_corpus_manager = None
        self.scripted_scheduler_hook = None
        self.future_map = Quiet()
        self.init_beam_coordinator()
        self.enable_metrics = False
        if self.c.events:
            events.follow(self)
        from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor

        self.batch_result_processor = SchedulerBatchResultProcessor(
            is_generation=True, disaggregation_mode=self.disaggregation_mode, enable_overlap=self.enable_overlap,
            enable_overlap_mlx=False, model_config=self.model_config,
            token_to_kv_pool_allocator=self.token_to_kv_pool_allocator, tree_cache=self.tree_cache,
            hisparse_coordinator=None, req_to_token_pool=self.req_to_token_pool, decode_offload_manager=None,
            metrics_collector=None, metrics_reporter=self.metrics_reporter, draft_worker=None,
            model_worker=self.model_worker, logprob_result_processor=Quiet(), output_streamer=self.output_streamer,
            beam_coordinator=self.beam_coordinator, abort_request=None,
        )

    def _rows(self, longest):
        from sglang.srt.mem_cache.memory_pool import ReqToTokenPool

        return ReqToTokenPool(self.c.max_running_requests, longest, "cpu", False)

    def _allocator(self):
        from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
        from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator

        c = self.c
        if c.sliding_window_size:
            return windows.allocator(c)
        kv = hicache.device_pool(c) if c.hicache else Quiet()
        if c.page_size == 1:
            return TokenToKVPoolAllocator(c.pool, torch.bfloat16, "cpu", kv, False)
        a = PagedTokenToKVPoolAllocator(c.pool, c.page_size, torch.bfloat16, "cpu", kv, False)
        a.use_triton_kernels = False
        return a

    def _tree(self):
        c = self.c
        p = CacheInitParams(
            disable=c.disable_cache, req_to_token_pool=self.req_to_token_pool,
            token_to_kv_pool_allocator=self.token_to_kv_pool_allocator, page_size=c.page_size,
            eviction_policy=sched.get_memory().radix_eviction_policy,
            eviction_policy_config=sched.get_memory().radix_eviction_policy_config,
            chunked_prefill_size=c.chunked_prefill_size, enable_kv_cache_events=c.events, is_eagle=self.spec_algorithm.is_eagle(),
        )
        if c.tree == "radix":
            from sglang.srt.mem_cache import radix_cache

            ticks = iter(range(1, 1 << 62))
            radix_cache.time = types.SimpleNamespace(
                monotonic=lambda: next(ticks), perf_counter=lambda: 0.0, time=lambda: next(ticks))
            return radix_cache.RadixCache(p)
        from sglang.srt.mem_cache.unified_cache.components import ComponentType
        from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

        p.tree_components = (ComponentType.FULL,)
        if c.sliding_window_size:
            windows.tree_params(p, c)
        if c.tree == "python":
            p.tree_core_backend = "python"
        tree = UnifiedRadixCache(p)
        if c.hicache:
            tree.init_hicache(self.server_args, p)
        return tree

    # -- arrivals --

    def ingest_requests(self, stop_at_pause=False):
        while self.future and self.future[0].arrival <= self.clock:
            self._submit(self.future.popleft())
        if not self.future and self.is_done():
            self.gracefully_exit = True
        return []

    def is_done(self):
        return (not self.waiting_queue and self.chunked_req is None and self.running_batch.is_empty()
                and not self.result_queue and (self.last_batch is None or self.last_batch.is_empty()
                                               or all(r.finished() for r in self.last_batch.reqs)))

    def _submit(self, r):
        params = SamplingParams(max_new_tokens=r.output, temperature=0, ignore_eos=self.c.ignore_eos)
        params.normalize(None)
        req = Req(name(r), "", array("q", r.tokens), params, eos_token_ids=None, vocab_size=1 << 60, priority=r.priority)
        if validate_input_length(req, self.max_req_len - 5, False):  # the limit of TpModelWorker
            r.refused = True
        req.logprob_start_len = -1  # as in the server without requested log-probabilities
        if self.c.clip_outputs:
            self.init_req_max_new_tokens(req)
            if params.max_new_tokens != r.output:
                r.clipped = params.max_new_tokens
        self._add_request_to_queue(req)

    def _add_request_to_queue(self, req, is_retracted=False):
        r = self.by_rid[req.rid]
        again, r.queued = r.queued, True
        if again:  # retracted or preempted
            r.retractions += 1
            self.retracted_now.append(r.rid)
        super()._add_request_to_queue(req, is_retracted)

    def send_abort_output(self, abort_req, req):
        r = self.by_rid[req.rid]
        r.aborted, r.got = self.clock, len(r.outputs)

    # -- passes --

    def _extend_work(self, batch):
        return [(self.by_rid[q.rid].rid, p, n) for q, p, n in zip(batch.reqs, batch.prefix_lens, batch.extend_lens)]

    def _admit(self, batch):
        for q, p in zip(batch.reqs, batch.prefix_lens):
            if (lost := len(q.full_untruncated_fill_ids) - q.extend_end) > 0 and q is not batch.chunked_req:
                raise Stall(f"two prompts of a pass are cut for want of windows, and {lost} tokens of request {q.rid} are forgotten")
            r = self.by_rid[q.rid]
            if r.hit is None:
                r.hit, r.host_hit = p, q.materialized_host_hit_len()
            r.admissions.append(p)

    def _shuffle(self, queue):
        """Shuffle the queue as replay does with its default seed."""
        queue.sort(key=lambda q: (drafts.acceptance.draw(42, self.by_rid[q.rid].rid, self.shuffles), self.by_rid[q.rid].rid))
        self.shuffles += 1

    def _result(self, n):
        ids = torch.arange(self.next_token, self.next_token + n, dtype=torch.int64)
        self.next_token += n
        return GenerationBatchResult(next_token_ids=ids)

    def _prefill_ms(self, batch):
        n = len(batch.reqs)
        before, new = sum(batch.prefix_lens), sum(batch.extend_lens)
        if self.drafts and batch.decoding_reqs:  # SGLang's lengths do not include the tokens of unprocessed results
            k = n - len(batch.decoding_reqs)
            before = sum(batch.prefix_lens[:k]) + sum(x - 1 for x in self.drafts.lengths(batch.decoding_reqs))
        return self.times.prefill(n, (before + new) // n, before // n)

    def _decode_ms(self, lengths):
        total = sum(lengths)
        return self.times.decode(len(lengths), min(total, self.c.pool), total // len(lengths), self.c.pool)

    def run_batch(self, batch, pp_proxy_tensors=None):
        self.forward_ct += 1
        batch.forward_iter = self.forward_ct
        if batch.extend_num_tokens:
            self.processed_tokens_counter += batch.extend_num_tokens
        self.idle_turns = 0
        start = max(self.clock, self.gpu_free)
        entry = {"at": start}
        if batch.forward_mode.is_extend():
            if self.is_mixed_chunk and batch.decoding_reqs:
                k = len(batch.reqs) - len(batch.decoding_reqs)
                entry["prefill"] = self._extend_work(batch)[:k]
                entry["decode"] = [self.by_rid[q.rid].rid for q in batch.decoding_reqs]
            else:
                entry["prefill"] = self._extend_work(batch)
            self._admit(batch)
            ms = self._prefill_ms(batch)
        elif batch.forward_mode.is_idle():  # the rank waits for the other ranks
            ms = 0.0
        else:
            entry["decode"] = [self.by_rid[q.rid].rid for q in batch.reqs]
            lengths = [q.kv.kv_committed_len for q in batch.reqs]
            ms = self._decode_ms(self.drafts.lengths(batch.reqs, self.drafts.tokens - 1) if self.drafts else lengths)
        if self.drafts:
            ms = self.drafts.pass_ms(ms, batch.forward_mode.is_decode())
        if self.load_nanos:
            ms, self.load_nanos = hicache.load_pass(self.c, ms, self.load_nanos), 0
        if self.retracted_now:
            entry["retracted"], self.retracted_now = self.retracted_now, []
        entry["end"] = self.gpu_free = start + self._slowest(ms)
        entry["free"] = self.token_to_kv_pool_allocator.available_size()
        if self.c.passes:
            self.log.append(entry)
        batch.input_ids = None
        result = self._result(len(batch.reqs))
        result.ends = self.gpu_free
        if self.drafts and batch.forward_mode.is_decode():
            self.drafts.accept(batch, self.by_rid, result)
        elif self.drafts:
            self.drafts.prefill(batch, result)
        return result

    def _slowest(self, ms):
        """Return the duration (ms) of a pass on all ranks. ms is its duration on this rank."""
        return ms

    def process_batch_result(self, batch, result):
        self.clock = max(self.clock, result.ends)
        before = {q.rid: len(q.output_ids) for q in batch.reqs}
        p = self.batch_result_processor
        if batch.forward_mode.is_decode():
            p.process_batch_result_decode(batch, result)
        elif batch.forward_mode.is_idle():
            p.process_batch_result_idle(batch, result)
        else:
            p.process_batch_result_prefill(batch, result)
        if self.drafts:
            self.drafts.settle(result)
        self._stamp(batch.reqs, before, self.clock)
        self.tree_cache.flush_pending_backups()

    def _stamp(self, reqs, before, at):
        for q in reqs:
            n = len(q.output_ids)
            if n > before[q.rid]:
                r = self.by_rid[q.rid]
                r.got = n if not self.drafts else min(n, max(1, q.sampling_params.max_new_tokens))  # SGLang discards more tokens
                r.outputs = list(q.output_ids)
                r.last = at
                if r.first is None:
                    r.first = at

    def on_idle(self):
        if self.is_done():
            self.kv_events_publisher.publish_kv_events()
            self.new_token_ratio_tracker.reset()
        self.idle_turns += 1
        if self.idle_turns <= self.prefill_decode_interval and not self.is_done():
            return  # SGLang plans no prompts for prefill_decode_interval turns, then plans them at this time
        copied = self.transfers.next_end(self.clock) if self.transfers and (self.storage or not self.is_done()) else None
        if self.storage:
            if self.storage.has_news():
                return
            later = [t for t in self.storage.ends() if t > self.clock]
            copied = min(later + ([copied] if copied is not None else []), default=None)
        if copied is not None:  # SGLang would poll until the copy ends
            self.clock = max(self.clock, min(copied, self.future[0].arrival if self.future else copied))
            self.idle_turns = 0
        elif self.future and (self.is_done() or self.idle_turns > 4 + self.prefill_decode_interval):
            self.clock = max(self.clock, self.future[0].arrival)
        elif self.idle_turns > 64 + self.prefill_decode_interval:
            raise Stall(f"nothing can run: {len(self.waiting_queue)} wait, {len(self.running_batch.reqs)} run, "
                        f"{self.token_to_kv_pool_allocator.available_size()} free, "
                        f"{self.tree_cache.evictable_size()} evictable")

    # -- loops --

    def run(self):
        with torch.inference_mode():
            {"normal": self.event_loop_normal, "overlap": self.event_loop_overlap}[self.c.loop]()
        return self


def name(r):
    """Return SGLang's id of a request. The schedule policy hrrn breaks ties by the lower id."""
    return f"{r.rid:09d}"


def prompt(hash_ids, length, block):
    tokens = []
    for h in hash_ids:
        tokens.extend(range(h * block, h * block + block))
    if len(tokens) < length:
        raise ValueError("hash_ids cover too few tokens")
    return tokens[:length]
