"""Several SGLang schedulers in lockstep, as with data-parallel attention. SGLang's own controller distributes requests.

Each rank is a Scheduler with its own loop in a thread. Only one thread runs at a time. The ranks wait for each other where
SGLang gathers a row of each rank (dp_attn.exchange_sync_rows). A pass ends on all ranks when it ends on the slowest rank.
The controller reads the loads that the schedulers publish. Its clock is the clock of the simulation.
"""
from __future__ import annotations

import contextvars
import copy
import itertools
import threading
import types

import torch

import oracle
from oracle import Quiet, sched

from sglang.srt.managers import data_parallel_controller as dpc  # noqa: E402
from sglang.srt.managers.scheduler_components import dp_attn  # noqa: E402
from sglang.srt.managers.scheduler_components.pool_stats_observer import SchedulerPoolStatsObserver  # noqa: E402


class Meeting:
    """A barrier for ranks. Only one rank runs at a time."""

    def __init__(self, n):
        self.lock = threading.Lock()
        self.barrier = threading.Barrier(n)
        self.values = [None] * n

    def all(self, rank, value=None):
        """Wait for all ranks, and return the value of each rank."""
        self.values[rank] = value
        self.lock.release()
        self.barrier.wait()
        values = list(self.values)
        self.barrier.wait()
        self.lock.acquire()
        return values


class Rank(oracle.Oracle):
    def __init__(self, c, workers, rank, times):
        self.workers, self.rank = workers, rank
        own = copy.copy(c)
        own.max_running_requests = max(1, c.max_running_requests // c.ranks)
        self.whole = c
        super().__init__(own, workers.requests, times)
        self.future = workers.future
        self.require_mlp_sync = True
        self.dp_attn_adapter = dp_attn.SchedulerDPAttnAdapter(
            model_runner=Quiet(prefill_cuda_graph_runner=None, spec_algorithm=self.spec_algorithm, model_config=None),
            req_to_token_pool=self.req_to_token_pool, token_to_kv_pool_allocator=self.token_to_kv_pool_allocator,
            tree_cache=self.tree_cache, offload_tags=set(), model_config=self.model_config,
            enable_overlap=self.enable_overlap, spec_algorithm=self.spec_algorithm,
            get_require_mlp_sync=lambda: True)
        self.pool_stats_observer = SchedulerPoolStatsObserver(
            tree_cache=self.tree_cache, token_to_kv_pool_allocator=self.token_to_kv_pool_allocator,
            req_to_token_pool=self.req_to_token_pool, session_controller=Quiet(), hisparse_coordinator=None,
            is_hybrid_swa=self.is_hybrid_swa, is_hybrid_ssm=False, enable_hisparse=False,
            full_tokens_per_layer=self.full_tokens_per_layer, swa_tokens_per_layer=self.swa_tokens_per_layer,
            max_total_num_tokens=c.pool)
        self.load_inquirer = types.SimpleNamespace(
            _get_num_pending_tokens=lambda **k: 0, get_loads=lambda: load_of(self))
        self.load_snapshot_writer = types.SimpleNamespace(
            publish_counter=0, publish_interval=sched.get_observability().load_snapshot_publish_interval,
            write=lambda load: workers.boards.__setitem__(rank, load))

    def ingest_requests(self, stop_at_pause=False):
        w = self.workers
        done = w.meeting.all(self.rank, self.is_done())
        if self.rank == 0:
            w.dispatch(self.clock)
            w.over = all(done) and not w.future and not any(w.inboxes)
        w.meeting.all(self.rank)
        self.gracefully_exit = w.over
        inbox, w.inboxes[self.rank] = w.inboxes[self.rank], []
        for r in inbox:
            self._submit(r)
        return []

    def _slowest(self, ms):
        return max(self.workers.meeting.all(self.rank, ms))

    def process_batch_result(self, batch, result):
        self.publish_load_snapshot(force=batch.forward_mode.is_extend())
        super().process_batch_result(batch, result)

    def on_idle(self):
        done = self.is_done()
        if done:
            self.new_token_ratio_tracker.reset()
            self.publish_load_snapshot(force=True)
        self.idle_turns += 1
        everybody = all(self.workers.meeting.all(self.rank, done))
        if self.future and (everybody or self.idle_turns > 4):
            self.clock = max(self.clock, self.future[0].arrival)
        elif self.idle_turns > 64:
            raise oracle.Stall(f"nothing can run on rank {self.rank}")


stamps = itertools.count(1)


def load_of(s):
    """Return the load of a scheduler by SchedulerLoadInquirer, with the fields that the controller reads."""
    from sglang.srt.managers.scheduler_components.load_inquirer import SchedulerLoadInquirer

    inquirer = SchedulerLoadInquirer.__new__(SchedulerLoadInquirer)
    none = {name: (lambda *a: None) for name in SchedulerLoadInquirer.__dataclass_fields__}
    for name, value in {
            **none, "disaggregation_mode": s.disaggregation_mode, "max_total_num_tokens": s.max_total_num_tokens,
            "max_running_requests": s.max_running_requests, "pool_stats_observer": s.pool_stats_observer,
            "tp_worker": None, "token_to_kv_pool_allocator": s.token_to_kv_pool_allocator, "spec_algorithm": s.spec_algorithm,
            "get_running_batch": lambda: s.running_batch, "get_waiting_queue": lambda: s.waiting_queue,
            "waiting_queue_prefix_matched": lambda: False, "get_recent_cache_hit_rate": lambda: 0.0,
            "get_stats": lambda: types.SimpleNamespace(
                spec_accept_rate=0, kv_transfer_speed_gb_s=0, kv_transfer_latency_ms=0, num_grammar_queue_reqs=0,
                num_paused_reqs=0, num_retracted_reqs=0, gen_throughput=0, cache_hit_rate=0, utilization=0),
            "get_chunked_req": lambda: s.chunked_req, "get_total_prefill_uncached_tokens": lambda: 0,
            "get_total_prefill_busy_us": lambda: 0, "get_decode_moment_totals": lambda: [0.0] * 6,
            "get_waiting_storage_span": None}.items():
        object.__setattr__(inquirer, name, value)
    load = inquirer.get_loads()
    load.dp_rank, load.timestamp = s.rank, float(next(stamps))
    return load


class Lockstep:
    def __init__(self, c, requests, times):
        n = c.ranks
        self.c, self.requests = c, requests
        self.meeting = Meeting(n)
        self.future = oracle.deque(sorted(requests, key=lambda r: (r.arrival, r.rid)))
        self.inboxes = [[] for _ in range(n)]
        self.boards = [None] * n
        self.over = False
        self.log = []
        self.now = 0.0
        self.ranks = [Rank(c, self, i, times) for i in range(n)]
        self.by_rid = {oracle.name(r): r for r in requests}
        tp = Quiet(active_ranks_cpu=torch.ones(n), active_ranks=torch.ones(n), device="cpu", device_group=None, cpu_group=None)
        tp.__bool__ = True
        dp_attn.get_parallel = lambda: types.SimpleNamespace(
            num_dp_ranks=n, attn_tp_size=1, attn_cp_size=1, dwdp_size=1, tp_group=tp)
        dp_attn.exchange_sync_rows = self._gather
        dp_attn.world_dp_gather_enabled = lambda: False
        dp_attn.cuda_graph_fully_disabled = lambda: True
        dp_attn.check_cuda_graph_backend = lambda *a: False
        dp_attn.require_mlp_tp_gather = lambda **k: True
        dp_attn.TboDPAttentionPreparer = NoOverlapOfTwo
        self.controller = self._controller(n)
        self.local = threading.local()

    def _controller(self, n):
        d = dpc.DataParallelController.__new__(dpc.DataParallelController)
        d.load_balance_method = dpc.LoadBalanceMethod.from_str(sched.get_parallel().load_balance_method)
        d.round_robin_counter = d.health_round_robin_counter = 0
        d.dispatching = {
            dpc.LoadBalanceMethod.ROUND_ROBIN: d.round_robin_scheduler,
            dpc.LoadBalanceMethod.FOLLOW_BOOTSTRAP_ROOM: d.follow_bootstrap_room_scheduler,
            dpc.LoadBalanceMethod.TOTAL_REQUESTS: d.total_requests_scheduler,
            dpc.LoadBalanceMethod.TOTAL_TOKENS: d.total_tokens_scheduler,
        }[d.load_balance_method]
        d.refresh_load_budget_on_dispatch = d.load_balance_method in (
            dpc.LoadBalanceMethod.TOTAL_REQUESTS, dpc.LoadBalanceMethod.TOTAL_TOKENS)
        d.dp_budget = dpc.DPBudget(n)
        d.load_snapshot_reader = types.SimpleNamespace(read_all=lambda: [b for b in self.boards if b is not None])
        d._last_refresh_time = -1e9
        d.workers, d.status, d._active_workers = list(range(n)), [True] * n, list(range(n))
        dpc.sock_send = lambda worker, req: self.inboxes[worker].append(req.request)
        dpc.time = types.SimpleNamespace(perf_counter=lambda: self.now / 1000)
        return d

    def dispatch(self, clock):
        while self.future and self.future[0].arrival <= clock:
            r = self.future.popleft()
            self.now = r.arrival
            d = self.controller
            if d.refresh_load_budget_on_dispatch:
                d.refresh_load_budget()
            d.dispatching(types.SimpleNamespace(
                request=r, routed_dp_rank=None, bootstrap_room=r.rid, input_ids=r.tokens))

    def _gather(self, rows, row, group):
        got = self.meeting.all(self.local.rank, row.clone())
        rows.view(len(got), -1).copy_(torch.stack([x.flatten() for x in got]))

    def _run(self, rank):
        self.local.rank = rank.rank
        self.meeting.lock.acquire()
        try:
            rank.run()
        except BaseException as e:  # noqa: BLE001: an exception of one rank ends all ranks
            self.failed = self.failed or e
            self.meeting.barrier.abort()
        finally:
            if self.meeting.lock.locked():
                try:
                    self.meeting.lock.release()
                except RuntimeError:
                    pass

    def run(self):
        self.failed = None
        threads = [threading.Thread(target=contextvars.copy_context().run, args=(self._run, r)) for r in self.ranks]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if self.failed:
            raise self.failed
        return self


class NoOverlapOfTwo:
    """Stand-in for two-batch overlap, which is disabled."""

    def prepare_all_gather(self, batch):
        mode = dp_attn.ForwardMode.IDLE if batch is None else batch.forward_mode
        return False, mode.value

    def compute_output(self, rows):
        return None, None
