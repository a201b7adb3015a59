"""Run prefill and decode engines of a release with its own NixlConnector or NixlPushConnector, on one logical clock.

The schedulers and the scheduler side of the connector are vLLM's. The worker side of the connector is a model:

- Each transfer has a link to itself, with a latency and a bandwidth.
- NixlConnector: the decode worker reads blocks of the prefill worker. The transfer begins when the decode worker receives the
  pass that requests it. The prefill worker is notified when the transfer ends. A pass reports the transfers that have
  ended when the worker receives the pass.
- NixlPushConnector: the prefill worker writes blocks to the decode worker. The transfer begins when both workers have received
  the passes with the blocks of the request. The decode worker reports the transfer one pass after the pass that finds it,
  because that pass wakes the thread that reads notifications.
- An engine keeps blocks for another engine without a time limit, because the decode engine renews the lease.

With NixlConnector, a request goes to the prefill engine first, for an answer of one token. The request then goes to the decode
engine with its whole prompt, as with a proxy. With NixlPushConnector, a request goes to both engines when it arrives.

Each engine is a fiber, which runs until it has to wait. The engine with the earliest time runs next, so that an engine
never receives a message from its past.
"""
import heapq
import json
import os
import time
import types
from collections import deque

import main
from config import Bag, Refused, configure, pick
from fibers import Fiber
from workload import tokens

import vllm.utils.hashing as hashing
import vllm.v1.core.kv_cache_utils as kv_cache_utils
import vllm.v1.engine.core as engine_core
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.outputs import KVConnectorOutput
from vllm.v1.request import Request


class Reader:
    """Stand-in for the worker side of NixlConnector: it reads blocks of other workers and is notified of their reads."""

    def __init__(self, id, s, peers):
        self.bytes = s["block_size"] * s["kv_bytes_per_token"]
        self.per_second, self.latency = s["kv_transfer_bandwidth"] * 1e9, s["kv_transfer_latency_ms"]
        self.peers, peers[id] = peers, self
        self.reading, self.heard, self.known = [], [], set()  # reading: (end, request); heard: (time, request); known: requests with blocks for other workers
        self.pulled = {}  # blocks read or registered, by request
        self.now = 0.0
        self.moves = 0  # number of changes of reading, heard and known

    def wakes(self):
        """Return the end time (ms) of the next transfer that a pass will report."""
        return min((at for at, _ in (*self.reading, *self.heard)), default=float("inf"))

    def copying(self, now):
        return False

    def begin(self, out, now, computed):
        self.now = max(self.now, now)
        return now

    def read(self, id, meta):
        blocks = sum(len(g) for g in meta.local_block_ids)
        self.pulled.setdefault(id, blocks)
        end = self.now + (self.latency + float(blocks * self.bytes) / self.per_second * 1000.0)
        if blocks:
            self.reading.append((end, id))
        self.peers[meta.remote.engine_id].heard.append((end if blocks else self.now, meta.remote.request_id))
        self.moves += 1

    def end(self, out, computed):
        meta = out.kv_connector_metadata
        for id, m in meta.reqs_to_recv.items():
            self.read(id, m)
        self.moves += len(meta.reqs_in_batch) + len(meta.reqs_not_processed)
        self.known |= set(meta.reqs_in_batch)
        self.known -= set(meta.reqs_not_processed)
        told, now = KVConnectorOutput(), self.now
        told.report = lambda told: self.report(told, now)
        return told

    def report(self, told, now):
        """Fill in told, the report of a pass that the worker received at now."""
        del told.report
        sent = [id for at, id in sorted(self.heard) if at <= now and id in self.known]
        self.heard = [x for x in self.heard if x[0] > now]
        self.moves += len(sent)
        self.known -= set(sent)
        received = [id for at, id in self.reading if at <= now]
        self.reading = [x for x in self.reading if x[0] > now]
        self.moves += len(received)
        told.finished_sending = dict.fromkeys([*sent, *(told.finished_sending or ())]) or None
        told.finished_recving = dict.fromkeys([*received, *(told.finished_recving or ())]) or None


class Writer(Reader):
    """Stand-in for the worker side of NixlPushConnector: a prefill worker writes into blocks that decode workers register."""

    def __init__(self, id, s, peers):
        super().__init__(id, s, peers)
        self.registered, self.finished, self.found = {}, {}, []  # registered: (time, blocks, decode worker); finished: time; found: requests to report

    def match(self, id):
        """Begin the transfer of a request if both workers have received its blocks."""
        if id not in self.registered or id not in self.finished:
            return
        at, blocks, decode = self.registered.pop(id)
        end = max(at, self.finished.pop(id)) + (self.latency + float(blocks * self.bytes) / self.per_second * 1000.0)
        decode.reading.append((end, id))
        self.heard.append((end, id))

    def end(self, out, computed):
        meta = out.kv_connector_metadata
        self.moves += len(meta.push_registrations or ()) + len(meta.push_finished_blocks or ())
        for id, told in (meta.push_registrations or {}).items():
            blocks = sum(len(g) for g in told["local_block_ids"])
            self.pulled.setdefault(id, blocks)
            prefill = self.peers[told["remote_engine_id"]]
            prefill.registered[told["request_id"]] = self.now, blocks, self
            prefill.match(id)
        for id in meta.push_finished_blocks or {}:
            self.finished[id] = self.now
            self.match(id)
        meta.reqs_to_recv = {}
        return super().end(out, computed)

    def report(self, told, now):
        host, told.finished_recving = told.finished_recving or (), None
        super().report(told, now)
        found, self.found = self.found, list(told.finished_recving or ())
        told.finished_recving = dict.fromkeys([*found, *host]) or None


class Clock(main.Clock):
    """The clock of an engine. Other engines run while the engine waits."""

    def __init__(self, fiber):
        self.fiber = fiber

    def wait(self, end):
        if end > self.now:
            self.fiber.pause("pass", end)
        super().wait(end)


class Name(str):
    """A request id that sorts by order of arrival, because vLLM breaks ties of priority and arrival by id."""

    def __new__(cls, number, order):
        name = super().__new__(cls, main.name_of(number))
        name.order = order
        return name

    def __lt__(self, other):
        return self.order < other.order


class Side(main.Engine):
    """An engine of a pool, with the requests sent to it."""

    def __init__(self, role, number, s, profile, lives, log, peers, deliver):
        id = f"{role}-{number}"
        s = {**s, "kv_role": role, "engine_id": id}
        config = configure(s)
        super().__init__(config, s, profile, lives, log, (Writer if s["kv_transfer"] == "push" else Reader)(id, s, peers))
        self.fiber = Fiber(self.loop)
        self.clock = self.model_executor.clock = Clock(self.fiber)
        self.model_executor.drops = getattr(self.scheduler, "requires_kv_delivery", False)
        self.id, self.block_size, self.deliver = id, s["block_size"], deliver
        self.hasher = kv_cache_utils.get_request_block_hasher(s["block_size"], hashing.sha256, **pick(
            kv_cache_utils.get_request_block_hasher, num_hash_lookahead_tokens=getattr(config, "num_hash_lookahead_tokens", 0) if hasattr(VllmConfig, "num_hash_lookahead_tokens") else 0))
        self.coming, self.idle, self.by_priority = deque(), 0, s.get("policy") == "priority"
        self.made = 0  # number of requests made
        self.quiet, self.state = 0, None  # consecutive iterations without a change; state after the last iteration

    def put_nowait(self, item):
        super().put_nowait(item)
        for o in item[1].outputs:
            if o.finish_reason is not None:
                self.deliver(self.lives[o.request_id], o.kv_transfer_params, self.clock.now)

    def has_work(self):
        return self.scheduler.has_requests() or self.batch_queue

    def next(self):
        """Return the time at which the engine runs next (ms)."""
        reason = self.fiber.reason
        if reason and reason[0] == "pass":
            return reason[1]
        if self.has_work():
            return self.clock.now
        return max(self.clock.now, self.coming[0][0]) if self.coming else float("inf")

    def advance(self):
        """Run the loop of the engine until it has to wait, and report whether an iteration has ended."""
        self.clock.now = self.next()
        engine_core.time = types.SimpleNamespace(**{**vars(time), "sleep": self.nap})
        self.fiber.resume()
        return self.fiber.reason[0] != "pass"

    def loop(self):
        """Run the loop of EngineCore."""
        while True:
            while self.coming and self.coming[0][0] <= self.clock.now:
                self.scheduler.add_request(self.coming.popleft()[1])
            before, began = self.log.passes, self.clock.now
            engine_core.EngineCoreProc._process_engine_step(self)
            self.log.delivered(self.clock.now)
            self.idle = 0 if self.log.passes != before else self.idle + 1
            state = (len(self.scheduler.requests), len(self.scheduler.running), len(self.batch_queue or ()), self.model_executor.worker.moves)
            napped = self.idle and state == self.state and self.clock.now == began + self.sleep
            self.quiet, self.state = self.quiet + 1 if napped else 0, state
            self.fiber.pause("iteration")

    def naps(self):
        """Report whether the engine has work left and only naps."""
        return self.quiet >= QUIET and self.fiber.reason[0] == "iteration" and self.has_work()

    def wakes(self):
        """Return the time (ms) of the next iteration. If the engine naps, return the next end of a transfer or arrival of a request."""
        if not self.naps():
            return self.next()
        return min(self.model_executor.worker.wakes(), self.coming[0][0] if self.coming else float("inf"))

    def nap_until(self, instant):
        """Skip the iterations before instant, in which the engine would only nap, and return their number."""
        skipped = 0
        while self.clock.now < instant:
            self.clock.now += self.sleep
            skipped += 1
        return skipped

    def request(self, row, number, most, block, transfer, at):
        """Return the Request that the front end of the engine makes when a request arrives at the time at (ms)."""
        self.made += 1
        params = SamplingParams(max_tokens=most, ignore_eos=True, extra_args={"kv_transfer_params": transfer})
        return Request(**pick(
            Request, request_id=Name(number, self.made), prompt_token_ids=tokens(row, block), sampling_params=params, pooling_params=None, eos_token_id=None,
            client_index=0, arrival_time=at / 1000, priority=row.priority if self.by_priority else 0, block_hasher=self.hasher))


QUIET = 4  # consecutive iterations without a change, after which an engine counts as napping
FOR_EVER = 3000  # passes without an arrival or end of a request, after which a run is stuck; random answers have up to 150 tokens


def still(sides):
    """Return the numbers of requests and reads of each engine, which change when a run makes progress."""
    return [(len(x.scheduler.requests), len(x.coming), len(x.model_executor.worker.reading)) for x in sides]


def drive(prefill, decode, rows, block, handed, pushes):
    """Run the engines in turns until no work is left. handed is a heap of the requests for decode engines, by time."""
    sides, at, sent = prefill + decode, 0, 0
    left, since, passes = None, 0, 0
    while True:
        napping = [x for x in sides if x.naps()]
        if napping:
            wake = min(min(x.wakes() for x in sides), rows[at].arrival if at < len(rows) else float("inf"), handed[0][0] if handed else float("inf"))
            if wake == float("inf"):
                raise main.Stuck("the schedulers plan nothing and have requests left: they would hang")
            since += sum(x.nap_until(wake) for x in napping)
        earliest = min(sides, key=lambda x: x.next())
        now = earliest.next()
        if at < len(rows) and rows[at].arrival <= now:
            to = prefill[at % len(prefill)]
            to.coming.append((rows[at].arrival, to.request(rows[at], at, 1, block, {"do_remote_decode": True, "do_remote_prefill": False}, rows[at].arrival)))
            if pushes:
                heapq.heappush(handed, (rows[at].arrival, at, rows[at], at, {
                    "do_remote_prefill": True, "do_remote_decode": False, "remote_engine_id": to.id, "remote_request_id": main.name_of(at),
                    "remote_host": "localhost", "remote_port": 1, "tp_size": 1}))
            at += 1
            continue
        if handed and handed[0][0] <= now:
            when, _, row, number, transfer = heapq.heappop(handed)
            to = decode[sent % len(decode)]
            most = min(row.output, to.config.model_config.max_model_len - row.input)
            to.coming.append((when, to.request(row, number, most, block, transfer, when)))
            sent += 1
            continue
        if now == float("inf"):
            return
        if not earliest.advance():
            continue
        since += 1
        if left != still(sides):
            left, since, passes = still(sides), 0, 0
        elif earliest.log.passes and earliest.idle == 0:
            since, passes = 0, passes + 1
        if passes > FOR_EVER:
            raise main.Stuck(f"{FOR_EVER} passes in which no request came or ended: it would continue for ever")
        if any(x.model_executor.worker.reading or x.model_executor.worker.copying(now) for x in sides):
            since = 0
        if since > main.ENDLESS:
            if at == len(rows):
                raise main.Stuck("the schedulers plan nothing and have requests left: they would hang")
            for x in sides:  # only an arrival can give the schedulers work
                x.clock.now = max(x.clock.now, rows[at].arrival)
            since = 0


def run(rows, s, profile, block, out=None):
    """Run rows and return a summary of the run. main.run.lives has the results of the requests, in the order of rows."""
    import vllm
    if out:
        os.makedirs(out, exist_ok=True)
    kv_cache_utils.init_none_hash(hashing.sha256)
    names = [main.name_of(i) for i in range(len(rows))]
    firsts = {n: main.Life(r, i) for i, (n, r) in enumerate(zip(names, rows))}
    lives = {n: main.Life(r, i) for i, (n, r) in enumerate(zip(names, rows))}
    peers, logs, handed = {}, [], []

    def hand_over(life, transfer, now):
        heapq.heappush(handed, (now, hand_over.count, life.row, life.number, transfer))
        hand_over.count += 1

    hand_over.count, pushes = 0, s["kv_transfer"] == "push"

    def pool(role, n, lives, s, deliver):
        made = []
        for i in range(n):
            logs.append(main.Log(os.path.join(out, f"passes-{role}-{i}.jsonl") if out else None, lives))
            made.append(Side(role, i, s, profile, lives, logs[-1], peers, deliver))
        return made

    began = time.monotonic()
    try:
        prefill = pool("kv_producer", s["prefill_workers"], firsts, s, (lambda *_: None) if pushes else hand_over)
        decode = pool("kv_consumer", s["decode_workers"], lives, {**s, "num_gpu_blocks": s["decode_num_gpu_blocks"] or s["num_gpu_blocks"]}, lambda *_: None)
    except (AssertionError, ValueError) as e:
        raise Refused(str(e)) from e
    try:
        drive(prefill, decode, rows, block, handed, pushes)
    finally:
        for x in prefill + decode:
            x.fiber.end()
    done = [as_row(firsts[n], lives[n], n, decode, s["block_size"]) for n in names]
    for log in logs:
        log.close()
    told = {"vllm": getattr(vllm, "__version__", "?"), "scheduler": type(prefill[0].scheduler).__name__, "async_scheduling": prefill[0].async_scheduling,
            "requests": len(done), "passes": sum(x.passes for x in logs), "empty_passes": sum(x.empty for x in logs),
            "preemptions": sum(d["preemptions"] for d in done), "cached_tokens": sum(d["cached_tokens"] for d in done),
            "end_ms": max((d["last_token_ms"] or 0.0 for d in done), default=0.0), "wall_s": round(time.monotonic() - began, 2)}
    if out:
        with open(os.path.join(out, "requests.jsonl"), "w") as f:
            f.writelines(json.dumps(d) + "\n" for d in done)
        with open(os.path.join(out, "run.json"), "w") as f:
            json.dump({**told, "settings": s, "timing": profile.raw, "trace_block_size": block}, f, indent=1)
    main.run.lives = done
    return told


def as_row(first, life, name, decode, block):
    """Return the results of a request: its admission to the prefill engine and its tokens from the decode engine."""
    row = life.as_row()
    blocks = next((x.model_executor.worker.pulled[name] for x in decode if name in x.model_executor.worker.pulled), None)
    found = 0 if blocks is None else ((life.input + block - 1) // block - blocks) * block
    return {**row, "admit_ms": first.first_admit, "prefill_end_ms": first.first, "decode_admit_ms": life.first_admit, "cached_tokens": first.cached, "found_tokens": found,
            "reused_tokens": max(first.most_cached, found, life.cached_again), "preemptions": first.preempted + life.preempted, "pulled_blocks": blocks}
