"""Run the data-parallel engines of a release with its own front end and coordinator, on one logical clock.

Engines run the loop of DPEngineCoreProc. DPLBAsyncMPClient chooses the engine of each request. The loop of DPCoordinatorProc
sends the loads of the engines to DPLBAsyncMPClient. Each loop is a fiber, which runs until it has to wait. Messages take no time.

Events at the same instant have this order: passes end (in the order of engines), the coordinator receives messages,
requests arrive, engines plan. A pass begins when every engine has submitted a pass or a dummy pass. The
duration of the pass follows from the maximum over all engines of each measure in timing.py.
"""
import json
import os
import time
import types
from collections import Counter, deque

import greenlet
import main
from config import Refused, configure, pick
from fibers import Fiber
from workload import tokens

import msgspec
import vllm.utils.hashing as hashing
import vllm.v1.core.kv_cache_utils as kv_cache_utils
import vllm.v1.engine.coordinator as coordinator_module
import vllm.v1.engine.core as engine_core
import vllm.v1.engine.core_client as core_client
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreOutputs, EngineCoreRequestType
from vllm.v1.request import Request

FOREVER = float("inf")


class Forward:
    """A pass that all engines compute together."""

    def __init__(self):
        self.work, self.end = {}, FOREVER


class Group:
    """The devices of all engines, which compute their passes together."""

    def __init__(self, size, clock, profile):
        self.size, self.clock, self.profile = size, clock, profile
        self.passes, self.free = [], 0.0
        self.submitted = [0] * size

    def submit(self, rank, work):
        i = self.submitted[rank]
        self.submitted[rank] += 1
        while len(self.passes) <= i:
            self.passes.append(Forward())
        f = self.passes[i]
        f.work[rank] = self.profile.measure(work)
        if len(f.work) == self.size:
            f.end = self.free = max(self.clock.now, self.free) + self.profile.ms([max(x) for x in zip(*f.work.values())])
        return f


class Flight:
    """The output of a pass, as the future that EngineCore reads."""

    def __init__(self, engine, forward, output):
        self.engine, self.forward, self.output = engine, forward, output

    def done(self):
        return self.forward is None or self.forward.end <= self.engine.clock.now

    def result(self, timeout=None):
        while not self.done():
            self.engine.wait("pass", self.forward)
        return self.output

    def exception(self, timeout=None):
        return None

    def add_done_callback(self, call):
        call(self)




class Executor(main.Executor):
    def __init__(self, engine, group, *more):
        super().__init__(engine.clock, *more)
        self.engine, self.group, self.is_sleeping = engine, group, False

    def execute_model(self, out, non_block=False):
        queue = self.engine.batch_queue
        for life in [self.lives[id] for id in out.preempted_req_ids or ()] if queue and queue[-1][0].done() else []:
            life.ended = life.length == life.input + life.output
        return super().execute_model(out, non_block)

    def launch(self, now, work, count, out, before, ids, sampled, rejected):
        if not ids:
            self.log.nothing(now)
            self.last = Flight(self.engine, None, main.runner_output([], [], None))
            return self.last
        self.log.passes += 1
        forward = self.group.submit(self.engine.rank, work)
        self.last = Flight(self.engine, forward, main.runner_output(ids, sampled, None))
        return Flight(self.engine, None, None)

    def execute_dummy_batch(self):
        Flight(self.engine, self.group.submit(self.engine.rank, None), None).result()


class Life(main.Life):
    """A request. As in replay, a preemption after its last token is computed and before it is delivered does not count."""

    ended = False  # True if the pass with the last token has ended

    def lost(self, drops):
        if not self.ended:
            super().lost(drops)


class Engine(main.Engine, engine_core.DPEngineCoreProc):
    """The attributes that the loop of DPEngineCoreProc reads. The loop itself is vLLM's."""

    kind = engine_core.DPEngineCoreProc

    def __init__(self, rank, s, profile, lives, log, world):
        self.rank = self.dp_rank = self.engine_index = rank
        self.world, self.dp_size, self.clock = world, s["data_parallel_size"], world.clock
        config = configure(s)
        config.model_config.is_moe = True
        super().__init__(config, s, profile, lives, log)
        self.clock = world.clock
        self.model_executor = Executor(self, world.group, profile, log, lives, main.Drafts(s["speculative_config"]), None)
        self.current_wave = self.step_counter = 0
        self.last_counts, self.publish_dp_lb_stats, self.has_coordinator = (0, 0), True, True
        self.pending_pause = self.ignore_start_dp_wave = False
        self.eep_scaling_state, self.dp_group, self.enable_fault_tolerance = None, None, False
        self.prefill_schedule_interval = s.get("prefill_schedule_interval", 0)
        self.dp_sync_interval = 16
        self.inputs, self.fiber = deque(), Fiber(self.loop)
        config.parallel_config.sync_dp_state = self.sync_dp_state

    def loop(self):
        engine_core.DPEngineCoreProc.run_busy_loop(self)

    def wait(self, *reason):
        self.fiber.pause(*reason)

    def ready(self):
        """Report whether the event that the engine waits for has occurred."""
        reason = self.fiber.reason
        if reason is None:
            return True
        if reason[0] == "pass":
            return reason[1].end <= self.clock.now
        if reason[0] == "nap":
            return reason[1] <= self.clock.now
        return False

    def until(self):
        reason = self.fiber.reason
        return FOREVER if not reason else reason[1].end if reason[0] == "pass" else reason[1] if reason[0] == "nap" else FOREVER

    def _handle_shutdown(self):
        return True

    def _process_input_queue(self):
        while True:
            self.wait("input")
            while self.inputs:
                self._handle_client_request(*self.inputs.popleft())
            if self.engines_running or self.scheduler.has_requests() or self.batch_queue:
                return

    def _handle_client_request(self, kind, what):
        if kind == EngineCoreRequestType.ADD:
            self.add_request(*what)
        else:
            engine_core.DPEngineCoreProc._handle_client_request(self, kind, what)

    def nap(self, seconds):
        self.slept += 1
        self.wait("nap", self.clock.now + self.sleep * (seconds / 0.001))

    def put_nowait(self, item):
        client, outputs = item
        if client == -1:
            outputs.engine_index = self.rank
            self.world.hear(outputs)
            return
        super().put_nowait(item)
        self.world.front.finished(outputs)

    def sync_dp_state(self, *_, has_unfinished, pending_pause, **__):
        return self.world.agree(self, has_unfinished), False


class World:
    def __init__(self, s, profile):
        self.clock = main.Clock()
        self.group = Group(s["data_parallel_size"], self.clock, profile)
        self.engines, self.votes = [], {}
        self.outcome = None

    def hear(self, outputs):
        self.coordinator.sockets["output_back"].append(outputs)

    def agree(self, engine, unfinished):
        self.votes[engine.rank] = unfinished
        engine.wait("agree")
        return self.outcome

    def settle(self):
        """Resume engines, coordinator and front end until none has work left at this instant."""
        for e in self.engines:
            while e.ready():
                e.fiber.resume()
        self.coordinator.run()
        self.front.arrive()
        moved = True
        while moved:
            moved = False
            for e in self.engines:
                while e.ready() or e.fiber.reason[0] == "input" and self.may_begin(e):
                    e.fiber.resume()
                    moved = True
            self.coordinator.run()
            if len(self.votes) == len(self.engines):
                self.outcome, self.votes, moved = any(self.votes.values()), {}, True
                for e in self.engines:
                    e.fiber.resume()

    def may_begin(self, e):
        return e.engines_running or e.scheduler.has_requests() or e.batch_queue or e.inputs

    def next(self):
        return min([e.until() for e in self.engines] + [self.front.next()])


class Socket:
    """Stand-in for a socket of the coordinator."""

    def __init__(self, coordinator, name):
        self.coordinator, self.name = coordinator, name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def getsockopt(self, _):
        return b""

    def recv(self):
        return self.coordinator.sockets[self.name].popleft()

    def send(self, what):
        if self.name == "publish_front":
            self.coordinator.world.front.told(what)

    def send_multipart(self, parts):
        kind, message = parts
        wave, but = msgspec.msgpack.decode(message)
        for e in self.coordinator.world.engines:
            e.inputs.append((EngineCoreRequestType.START_DP_WAVE, (wave, but)))


class Coordinator:
    """A fiber with the loop of DPCoordinatorProc. Sockets and time are stand-ins."""

    def __init__(self, world, size):
        self.world = world
        self.sockets = {"publish_front": deque(), "output_back": deque(), "publish_back": deque([b"\x01"] * size)}
        self.names = deque(["publish_front", "output_back", "publish_back"])
        module = coordinator_module
        module.make_zmq_socket = lambda **_: Socket(self, self.names.popleft())
        module.zmq = types.SimpleNamespace(Context=lambda: None, Poller=lambda: self, POLLIN=1, XPUB=1, PULL=2, LAST_ENDPOINT=3, Socket=object)
        module.time = types.SimpleNamespace(time=lambda: world.clock.now / 1000)
        module.MsgpackDecoder = lambda *_: types.SimpleNamespace(decode=lambda outputs: outputs)
        module.set_process_title = lambda *_: None
        self.fiber = Fiber(lambda: module.DPCoordinatorProc(size).process_input_socket("", "", ""))
        self.deadline, self.listened = FOREVER, []

    def register(self, socket, _):
        self.listened.append(socket)

    def poll(self, timeout):
        now = self.world.clock.now
        self.deadline = now + max(0, timeout)
        while True:
            self.fiber.pause("poll")
            events = [(x, 1) for x in self.listened if self.sockets[x.name]]
            if events or self.world.clock.now >= self.deadline:
                return events

    def run(self):
        """Run the coordinator up to the current instant."""
        while self.fiber.reason is None or self.deadline <= self.world.clock.now or any(self.sockets[x.name] for x in self.listened):
            self.fiber.resume()
            assert self.fiber.reason == ("poll",)


class Front:
    """The front end. The code of DPLBAsyncMPClient chooses the engine of each request."""

    def __init__(self, world, rows, s, lives, block, hasher, longest):
        self.world, self.rows, self.block, self.hasher, self.longest = world, rows, block, hasher, longest
        self.at, self.by_priority, n = 0, s["policy"] == "priority", s["data_parallel_size"]
        self.client = types.SimpleNamespace(
            reqs_in_flight={}, engine_inflight=Counter(), streaming_reqs=set(), client_count=1, eng_start_index=0,
            core_engines=list(range(n)), lb_engines=[[0, 0, 0.0] if "engine_inflight" in self.names() else [0, 0] for _ in range(n)])
        self.wave, self.running = 0, False
        self.asks = not hasattr(core_client.DPAsyncMPClient, "scale_sock_addr") and "FIRST_REQ" in self.source()

    def names(self):
        f = core_client.DPLBAsyncMPClient.get_core_engine_for_request.__code__
        return f.co_names

    def source(self):
        import inspect
        return inspect.getsource(core_client.DPAsyncMPClient.add_request_async)

    def told(self, message):
        counts, self.wave, self.running = msgspec.msgpack.decode(message)
        if counts is not None:
            self.client.lb_engines = counts

    def finished(self, outputs):
        call = core_client.DPLBAsyncMPClient.process_engine_outputs(self.client, outputs)
        try:
            call.send(None)
        except StopIteration:
            return
        raise AssertionError("process_engine_outputs waits")

    def next(self):
        return self.rows[self.at].arrival if self.at < len(self.rows) else FOREVER

    def arrive(self):
        now = self.world.clock.now
        while self.next() <= now:
            row, id = self.rows[self.at], main.name_of(self.at)
            most = min(row.output, self.longest - row.input)
            request = Request(**pick(
                Request, request_id=id, prompt_token_ids=tokens(row, self.block), sampling_params=SamplingParams(max_tokens=most, ignore_eos=True),
                pooling_params=None, eos_token_id=None, client_index=0, arrival_time=row.arrival / 1000, priority=row.priority if self.by_priority else 0, block_hasher=self.hasher))
            asked = types.SimpleNamespace(request_id=id, resumable=False, data_parallel_rank=None, pooling_params=None)
            engine = core_client.DPLBAsyncMPClient.get_core_engine_for_request(self.client, asked)
            main.run.ranks.append(engine)
            self.world.engines[engine].inputs.append((EngineCoreRequestType.ADD, (request, self.wave)))
            if self.asks and not self.running:
                self.running = True
                self.world.coordinator.sockets["publish_front"].append(msgspec.msgpack.encode((engine, self.wave)))
            self.at += 1


def drive(world, log):
    clock, since = world.clock, 0
    while True:
        before = (log.passes, world.front.at)
        world.settle()
        at = min(world.next(), world.coordinator.deadline)
        if world.front.next() == FOREVER and not any(e.scheduler.has_requests() or e.inputs for e in world.engines):
            return
        if at == FOREVER:
            raise main.Stuck("no engine waits for anything and requests are left: they would hang")
        since = 0 if before != (log.passes, world.front.at) else since + 1
        if since > main.ENDLESS:
            raise main.Stuck("the schedulers plan nothing and have requests left: they would hang")
        clock.now = at


def run(rows, s, profile, block, out=None):
    """Run rows and return a summary of the run. main.run.lives has the results of the requests, in the order of rows."""
    import vllm
    if out:
        os.makedirs(out, exist_ok=True)
    kv_cache_utils.init_none_hash(hashing.sha256)
    lives = {main.name_of(i): Life(r, i) for i, r in enumerate(rows)}
    log, world = main.Log(None, lives), World(s, profile)
    main.run.ranks = []
    began = time.monotonic()
    try:
        world.engines = [Engine(i, s, profile, lives, log, world) for i in range(s["data_parallel_size"])]
        config = world.engines[0].vllm_config
    except (AssertionError, ValueError) as e:
        raise Refused(str(e)) from e
    hasher = kv_cache_utils.get_request_block_hasher(s["block_size"], hashing.sha256, **pick(
        kv_cache_utils.get_request_block_hasher, num_hash_lookahead_tokens=getattr(config, "num_hash_lookahead_tokens", 0) if hasattr(VllmConfig, "num_hash_lookahead_tokens") else 0)) \
        if s["enable_prefix_caching"] else None
    world.front = Front(world, rows, s, lives, block, hasher, config.model_config.max_model_len)
    world.coordinator = Coordinator(world, s["data_parallel_size"])

    def sleep(seconds):
        by_fiber[greenlet.getcurrent()].nap(seconds)

    by_fiber = {}
    for e in world.engines:
        e.fiber.call = (lambda e=e: (by_fiber.__setitem__(greenlet.getcurrent(), e), e.loop()))
    engine_core.ParallelConfig.sync_dp_state = staticmethod(lambda *_, **what: by_fiber[greenlet.getcurrent()].sync_dp_state(**what))
    engine_core.time = types.SimpleNamespace(**{**vars(time), "sleep": sleep})
    try:
        drive(world, log)
    finally:
        for x in [e.fiber for e in world.engines] + [world.coordinator.fiber]:
            x.end()
    done = [{**l.as_row(), "rank": r} for l, r in zip(lives.values(), main.run.ranks)]
    told = {"vllm": getattr(vllm, "__version__", "?"), "scheduler": type(world.engines[0].scheduler).__name__,
            "async_scheduling": world.engines[0].async_scheduling, "requests": len(done), "passes": log.passes, "empty_passes": log.empty,
            "naps": sum(e.slept for e in world.engines), "preemptions": sum(d["preemptions"] for d in done), "cached_tokens": sum(d["cached_tokens"] for d in done),
            "end_ms": max((d["last_token_ms"] or 0.0 for d in done), default=0.0), "wall_s": round(time.monotonic() - began, 2)}
    if out:
        with open(os.path.join(out, "requests.jsonl"), "w") as f:
            f.writelines(json.dumps(d) + "\n" for d in done)
    main.run.lives = done
    return told
