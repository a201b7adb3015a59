"""Run vLLM's own scheduler over a workload on a virtual clock. The header of run describes the arguments."""
import argparse
import contextlib
import functools
import inspect
import json
import logging
import os
import queue
import sys
import time
import types
from collections import deque

import stubs

os.environ["VLLM_LOGGING_LEVEL"] = os.environ.get("VLLM_LOGGING_LEVEL", "ERROR")
os.environ["VLLM_NO_USAGE_STATS"] = "1"
os.environ["VLLM_PLUGINS"] = ""
stubs.install()
logging.disable(logging.WARNING)

import connectors  # noqa: E402
from connectors import PD  # noqa: E402
from config import Bag, Refused, configure, kv_cache, pick  # noqa: E402
from drafts import Drafts  # noqa: E402
from timing import Profile  # noqa: E402
from workload import read, tokens  # noqa: E402

import vllm.v1.core.kv_cache_utils as kv_cache_utils  # noqa: E402
import vllm.utils.hashing as hashing  # noqa: E402
import vllm.v1.engine.core as engine_core  # noqa: E402
from vllm.config import VllmConfig  # noqa: E402
from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.v1.core.sched.scheduler import Scheduler  # noqa: E402
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput  # noqa: E402
from vllm.v1.request import Request  # noqa: E402

DEFAULTS = {
    "num_gpu_blocks": 16384, "block_size": 16, "max_num_seqs": 256, "max_num_batched_tokens": 8192,
    "enable_prefix_caching": True, "enable_chunked_prefill": True, "async_scheduling": True,
    "long_prefill_token_threshold": 0, "policy": "fcfs", "max_model_len": 1 << 20,
    # Settings of the oracle only:
    "idle_sleep_ms": 1.0,  # sleep of EngineCore after an empty pass while requests are left
    "sliding_window": 0,  # tokens of the window of sliding-window layers; 0: no such layers
    "attention_chunk_size": 0,  # tokens of a chunk of chunked-attention layers; 0: no such layers
    "layer_types": None,  # of each layer, as in config.json; None: window_groups layers with the window, then full_groups full layers
    "window_groups": 1, "full_groups": 1,
    "architecture": "LlamaForCausalLM", "v2_model_runner": None,  # None: the release chooses the runner
    "speculative_config": None,  # see drafts.py
    "data_parallel_size": 1,  # see dp.py
    **connectors.DEFAULTS, **PD,
}


def new_scheduler(config, s):
    kind = config.scheduler_config.get_scheduler_cls()
    never = Bag(
        should_advance=lambda *_, **__: False, grammar_init=lambda *_: None, should_fill_bitmask=lambda *_: False,
        grammar_bitmask=lambda *_: None, accept_tokens=lambda *_: True,
        validate_tokens=lambda _, tokens: tokens)
    return kind(**pick(
        Scheduler.__init__, vllm_config=config, kv_cache_config=kv_cache(config, s), structured_output_manager=never,
        hash_block_size=s["block_size"], block_size=s["block_size"], include_finished_set=s["data_parallel_size"] > 1, log_stats=False))


class Clock:
    now = 0.0

    def wait(self, end):
        self.now = max(self.now, end)


class Flight:
    """A pass in flight, as the future that EngineCore reads."""

    def __init__(self, output, end, clock, rejected=None):
        self.output, self.end, self.clock = output, end, clock
        self.rejected = rejected  # (life, places, rejected drafts); the scheduler counts these drafts as computed until it has the output

    def done(self):
        return self.end <= self.clock.now

    def result(self, timeout=None):
        self.clock.wait(self.end)
        told = getattr(self.output, "kv_connector_output", None)
        if told is not None and hasattr(told, "report"):
            told.report(told)
        for life, places, n in self.rejected or ():
            if life.running and life.places == places:
                life.over -= n
        self.rejected = None
        return self.output

    def exception(self, timeout=None):
        return None

    def add_done_callback(self, call):
        call(self)


def runner_output(ids, sampled, transfers):
    return ModelRunnerOutput(**pick(
        ModelRunnerOutput, req_ids=ids, req_id_to_index={id: i for i, id in enumerate(ids)}, sampled_token_ids=sampled,
        logprobs=None, prompt_logprobs_dict={}, pooler_output=[], kv_connector_output=transfers))


class Executor:
    """Stand-in for the executor. It computes one pass at a time. The timing model sets the duration of a pass."""

    def __init__(self, clock, profile, log, lives, drafts, worker):
        self.clock, self.profile, self.log, self.lives, self.drafts = clock, profile, log, lives, drafts
        self.worker = worker  # worker side of the KV connector, or None
        self.drops = False  # True: tokens in flight of a preempted request are dropped
        self.free = 0.0  # when the device has computed all passes so far (ms)
        self.last = None
        self.proposed = None

    def execute_model(self, out, non_block=False):
        """Run a pass as a model runner does. A request samples a token if the pass computes its last known token."""
        now, work, ids, sampled, rejected = self.clock.now, [], [], [], []
        before = {r.req_id: r.num_computed_tokens for r in out.scheduled_new_reqs}
        before.update(zip(out.scheduled_cached_reqs.req_ids, out.scheduled_cached_reqs.num_computed_tokens))
        for id in out.preempted_req_ids or ():
            self.lives[id].lost(self.drops)
        for id, n in out.num_scheduled_tokens.items():
            life, b = self.lives[id], before[id]
            drafts = len(out.scheduled_spec_decode_tokens.get(id, ()))
            if life.places == 0 or not life.running:
                life.admitted(now, b)
            b -= life.over
            samples = b + n - drafts >= life.length
            assert b + n - drafts <= life.length and (samples or not drafts), (id, b, n, drafts, life.length)
            work.append((n, b, life.input, drafts))
            ids.append(id)
            sampled.append([])
            if samples:
                # Drafts of a request are padding if it has not sampled since its last admission.
                accepted = self.drafts.accepted(life.number, life.length - life.input, drafts if life.proposed else 0)
                sampled[-1] = [life.token() for _ in range(accepted + 1)]
                if drafts:
                    life.drafted(drafts, accepted)
                if drafts > accepted:
                    life.over += drafts - accepted
                    rejected.append((life, life.places, drafts - accepted))
                life.proposed = True
        count = getattr(out, "num_spec_tokens_to_schedule", self.drafts.count) if self.drafts.count else 0
        if getattr(out, "skip_drafts", False):  # as in the model runner of the release
            count = 0
        self.proposed = DraftTokenIds(ids, [[1] * count if t else [] for t in sampled])
        return self.launch(now, work, count, out, before, ids, sampled, rejected)

    def launch(self, now, work, count, out, before, ids, sampled, rejected):
        """Compute a pass and store its output in self.last."""
        start = max(now, self.free)
        if self.worker:
            start = max(start, self.worker.begin(out, now, self.free))
        if not ids:
            self.log.nothing(now)
            self.last = Flight(runner_output([], [], self.worker and self.worker.end(out, self.free)), start, self.clock)
            return self.last
        self.free = end = start + self.drafts.pass_ms(self.profile.pass_ms(work), count)
        self.log.pass_(now, start, end, out, before, sampled)
        self.last = Flight(runner_output(ids, sampled, self.worker and self.worker.end(out, end)), end, self.clock, rejected)
        return Flight(None, start, self.clock)

    def take_draft_token_ids(self):
        return self.proposed

    def sample_tokens(self, grammar=None, non_block=False):
        return self.last if non_block else self.last.result()


class Life:
    """The state and the results of a request."""

    def __init__(self, row, number):
        self.row, self.number = row, number
        self.input, self.output = row.input, row.output
        self.length = row.input  # tokens that the model runner knows or is computing
        self.running, self.places, self.preempted = False, 0, 0
        self.first_admit = self.first = self.second = self.last = None
        self.cached, self.most_cached, self.given = 0, 0, 0
        self.cached_again = 0  # most cached prompt tokens of an admission after the first
        self.over = 0  # rejected drafts that the scheduler does not know of yet
        self.verified, self.drafts, self.accepted = 0, 0, 0  # passes with drafts; drafts in these passes; accepted drafts
        self.proposed = False  # True: the next pass of the request has drafts

    def admitted(self, now, cached):
        if self.places == 0:
            self.first_admit, self.cached = now, cached
        self.most_cached = max(self.most_cached, min(cached, self.input))
        if self.places:
            self.cached_again = max(self.cached_again, min(cached, self.input))
        self.running, self.places, self.over, self.proposed = True, self.places + 1, 0, False

    def lost(self, drops):
        self.running = False
        if drops:
            self.length = self.input + self.given
        self.preempted += 1

    def drafted(self, drafts, accepted):
        if not self.proposed:
            return
        self.verified += 1
        self.drafts += drafts
        self.accepted += accepted

    def token(self):
        self.length += 1
        return (1 << 60) + (self.number << 24) + self.length

    def given_token(self, now):
        self.given += 1
        if self.given == 1:
            self.first = now
        elif self.given == 2:
            self.second = now
        self.last = now

    def as_row(self):
        return {
            "id": self.number, "line": self.row.line, "input_tokens": self.input, "output_tokens": self.output,
            "generated_tokens": self.given, "cached_tokens": self.cached, "reused_tokens": self.most_cached,
            "arrival_ms": self.row.arrival, "admit_ms": self.first_admit, "first_token_ms": self.first,
            "second_token_ms": self.second, "last_token_ms": self.last, "preemptions": self.preempted,
            "verified_passes": self.verified, "draft_tokens": self.drafts, "accepted_tokens": self.accepted}


class Log:
    def __init__(self, path, lives):
        self.file = open(path, "w") if path else None
        self.lives, self.passes, self.empty, self.busy = lives, 0, 0, 0.0
        self.open = deque()

    def nothing(self, now):
        self.empty += 1

    def pass_(self, planned, start, end, out, before, sampled):
        run = {
            "pass": self.passes, "planned_ms": planned, "start_ms": start, "end_ms": end,
            "scheduled": [[self.lives[i].number, before[i], n, len(t), len(out.scheduled_spec_decode_tokens.get(i, ()))] for (i, n), t in zip(out.num_scheduled_tokens.items(), sampled)],
            "preempted": sorted(self.lives[i].number for i in out.preempted_req_ids or ()), "finished": []}
        self.passes += 1
        self.busy += end - start
        self.open.append(run)

    def finished(self, number):
        """Add a finished request to the oldest pass that has not been delivered."""
        if self.open:
            self.open[0]["finished"].append(number)

    def delivered(self, now):
        """Write the passes that have ended by now."""
        while self.open and self.open[0]["end_ms"] <= now:
            self.write(self.open.popleft())

    def write(self, run):
        if self.file:
            self.file.write(json.dumps(run, separators=(",", ":")) + "\n")

    def close(self):
        while self.open:
            self.write(self.open.popleft())
        if self.file:
            self.file.close()


@functools.cache
def static(kind, name):
    """Return the attribute of a class as declared, or None if the class does not have it."""
    return inspect.getattr_static(kind, name, None)


class Engine:
    """The attributes that the loop of EngineCore reads. The loop itself is vLLM's."""

    def __init__(self, config, s, profile, lives, log, worker=None):
        self.clock, self.lives, self.log, self.config = Clock(), lives, log, config
        self.scheduler = new_scheduler(config, s)
        if config.kv_transfer_config and (s["num_g2_blocks"] or not worker):
            connectors.in_order(self.scheduler.connector)
            host = connectors.Worker(config, self.scheduler.kv_cache_config, s)
            worker = connectors.Both(worker, host) if worker else host
        self.model_executor = Executor(self.clock, profile, log, lives, Drafts(s["speculative_config"]), worker)
        self.vllm_config = config
        self.async_scheduling = bool(config.scheduler_config.async_scheduling)
        self.batch_queue_size = getattr(config, "max_concurrent_batches", 2 if self.async_scheduling else 1)
        self.batch_queue = deque(maxlen=self.batch_queue_size) if self.batch_queue_size > 1 else None
        self.is_ec_consumer, self.is_pooling_model, self.engines_running = True, False, False
        self.use_spec_decode = self.check_for_draft_tokens = bool(s["speculative_config"])
        self.is_mm_encoder_only = False
        self._weight_version = None
        self.aborts_queue, self.output_queue = queue.Queue(), self
        self.step_fn = self.step if self.batch_queue is None else self.step_with_batch_queue
        self.sleep = s["idle_sleep_ms"]
        self.slept = 0

    kind = engine_core.EngineCoreProc

    def __getattr__(self, name):
        """Return the method of EngineCore for a name that is not defined here."""
        found = static(self.kind, name)
        if inspect.isfunction(found):
            return types.MethodType(found, self)
        raise AttributeError(f"EngineCore's loop asks for {name}, which the oracle does not have")

    @contextlib.contextmanager
    def log_error_detail(self, *_):
        yield

    log_iteration_details = capture_iteration_details = log_error_detail

    def nap(self, seconds):
        self.slept += 1
        self.clock.now += self.sleep * (seconds / 0.001)

    def put_nowait(self, item):
        """Record the tokens and the finished requests of an output of the loop."""
        for o in item[1].outputs:
            life = self.lives[o.request_id]
            for _ in o.new_token_ids:
                life.given_token(self.clock.now)
            if o.finish_reason is not None:
                self.log.finished(life.number)


ENDLESS = 20000


class Stuck(Exception):
    """Raised if an engine would run forever."""


def drive(engine, rows, hasher, block, priority):
    """Run the loop of EngineCore.run_busy_loop: add the requests that have arrived, then run a step."""
    clock, scheduler, at = engine.clock, engine.scheduler, 0
    engine_core.time = types.SimpleNamespace(**{**vars(time), "sleep": engine.nap})
    process = engine_core.EngineCoreProc._process_engine_step
    idle, left, since = 0, None, 0  # left: requests in the scheduler and rows added; since: passes when left changed last
    while True:
        if left != (len(scheduler.requests), at):
            left, since = (len(scheduler.requests), at), engine.log.passes
        elif engine.log.passes - since > ENDLESS:
            raise Stuck(f"{ENDLESS} passes in which no request came or ended: it would continue for ever")
        if not (scheduler.has_requests() or engine.batch_queue):
            if at == len(rows):
                return
            clock.now = max(clock.now, rows[at].arrival)
        while at < len(rows) and rows[at].arrival <= clock.now:
            row = rows[at]
            # A server limits max_tokens so that the sequence fits into max_model_len.
            most = min(row.output, engine.config.model_config.max_model_len - row.input)
            params = SamplingParams(max_tokens=most, ignore_eos=True)
            scheduler.add_request(Request(**pick(
                Request, request_id=name_of(at), prompt_token_ids=tokens(row, block), sampling_params=params,
                pooling_params=None, eos_token_id=None, client_index=0, arrival_time=row.arrival / 1000,
                priority=row.priority if priority else 0, block_hasher=hasher)))
            at += 1
        before = engine.log.passes
        process(engine)
        engine.log.delivered(clock.now)
        copies = scheduler.connector and connectors.copies(scheduler.connector)
        idle = 0 if copies or engine.log.passes != before else idle + 1
        if idle > 1000:
            if at == len(rows):
                raise Stuck("the scheduler plans nothing and has requests left: it would hang")
            clock.now = max(clock.now, rows[at].arrival)  # only an arrival can give the scheduler work
            idle = 0


def main():
    p = argparse.ArgumentParser(prog="tools/vllmoracle/run VERSION")
    p.add_argument("workload")
    p.add_argument("--settings", default="{}")
    p.add_argument("--timing-profile", required=True)
    p.add_argument("--trace-block-size", type=int, default=512)
    p.add_argument("--limit", type=int, default=0)
    p.add_argument("--out")
    p.add_argument("--against", help="replay's per-request file (.jsonl) of the same run")
    a = p.parse_args()
    text = open(a.settings[1:]).read() if a.settings.startswith("@") else a.settings
    given = json.loads(text)
    s = settle(given)
    rows = read(a.workload, a.limit)
    try:
        told = run(rows, s, Profile(a.timing_profile), a.trace_block_size, a.out)
    except (Refused, Stuck) as e:
        sys.exit(f"vLLM: {e}")
    for name, value in told.items():
        print(f"{name:24} {value}")
    if a.against:
        against(run.lives, [json.loads(line) for line in open(a.against)])


def against(theirs, ours):
    """Print for each column how many requests are equal, and the first request that is not."""
    n = len(theirs)
    if n != len(ours):
        sys.exit(f"{n} requests here, {len(ours)} there")
    for name in ("reused_tokens", "preemptions", "generated_tokens", "admit_ms", "first_token_ms", "second_token_ms", "last_token_ms"):
        pairs = [(t[name], o[name]) for t, o in zip(theirs, ours)]
        if name.endswith("_ms"):
            good = [x == y or None not in (x, y) and abs(x - y) <= 1e-6 + 1e-9 * abs(x) for x, y in pairs]
            both = [(x, y) for x, y in pairs if None not in (x, y)]
            more = f", {sum(x == y for x, y in pairs)} to the last bit; mean {sum(x for x, _ in both) / len(both):.3f} here, " \
                f"{sum(y for _, y in both) / len(both):.3f} there; furthest apart {max(abs(x - y) for x, y in both):.3f}" if both else ""
        else:
            good = [x == y for x, y in pairs]
            more = f"; sum {sum(x for x, _ in pairs)} here, {sum(y for _, y in pairs)} there"
        first = "" if all(good) else f"; first other one: {good.index(False)}"
        print(f"{name:24} {sum(good)} of {n} alike{more}{first}")
    orders = [sorted(range(n), key=lambda i: (r[i]["admit_ms"], i)) for r in (theirs, ours)]
    print(f"{'order of admission':24} {sum(x == y for x, y in zip(*orders))} of {n} places alike")


def settle(given):
    """Return the settings with defaults. Without chunked prefill, max_model_len is at most the budget of a pass, as in vLLM."""
    s = {**DEFAULTS, **given}
    if not s["enable_chunked_prefill"]:
        s["max_model_len"] = min(s["max_model_len"], s["max_num_batched_tokens"])
    return s


def name_of(i):
    """Return the id of request i. Ids sort by i, because vLLM breaks ties of priority and arrival by id."""
    return f"{i:09d}"


def run(rows, s, profile, block, out=None):
    """Run rows and return a summary of the run. run.lives has the results of the requests, in the order of rows."""
    import vllm
    if out:
        os.makedirs(out, exist_ok=True)
    lives = {name_of(i): Life(r, i) for i, r in enumerate(rows)}
    log = Log(os.path.join(out, "passes.jsonl") if out else None, lives)
    digest = hashing.sha256
    kv_cache_utils.init_none_hash(digest)
    config = configure(s)
    hasher = kv_cache_utils.get_request_block_hasher(s["block_size"], digest, **pick(
        kv_cache_utils.get_request_block_hasher, num_hash_lookahead_tokens=getattr(config, "num_hash_lookahead_tokens", 0) if hasattr(VllmConfig, "num_hash_lookahead_tokens") else 0)) \
        if s["enable_prefix_caching"] or config.kv_transfer_config else None
    began = time.monotonic()
    try:
        engine = Engine(config, s, profile, lives, log)
    except (AssertionError, ValueError) as e:
        raise Refused(str(e)) from e
    drive(engine, rows, hasher, block, s["policy"] == "priority")
    log.close()
    done = [l.as_row() for l in lives.values()]
    told = {
        "vllm": getattr(vllm, "__version__", "?"), "scheduler": type(engine.scheduler).__name__,
        "async_scheduling": engine.async_scheduling, "groups": " ".join(type(g.kv_cache_spec).__name__ for g in engine.scheduler.kv_cache_config.kv_cache_groups), "requests": len(done), "passes": log.passes,
        "empty_passes": log.empty, "naps": engine.slept, "preemptions": sum(d["preemptions"] for d in done),
        "cached_tokens": sum(d["cached_tokens"] for d in done), "end_ms": max((d["last_token_ms"] or 0.0 for d in done), default=0.0), "wall_s": round(time.monotonic() - began, 2)}
    if out:
        with open(os.path.join(out, "requests.jsonl"), "w") as f:
            f.writelines(json.dumps(d) + "\n" for d in done)
        with open(os.path.join(out, "run.json"), "w") as f:
            json.dump({**told, "settings": s, "timing": profile.raw, "trace_block_size": block}, f, indent=1)
    run.lives = done
    return told


if __name__ == "__main__":
    main()
