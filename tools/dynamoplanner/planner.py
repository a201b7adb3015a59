"""Run the planner of NVIDIA Dynamo's Python package as an autoscaler of replay, with `scaler: process`.

    scaler: process
    command: .venv/bin/python tools/dynamoplanner/planner.py --config planner.json
    sync: 5s

planner.json is a configuration of the planner, as JSON or YAML. All predictors are supported. `mode` must match the role of
the workers: agg, prefill or decode. Requires Python 3.11 or later and these packages, installed in this order:

    pip install aisimulate==0.13.0.dev202610130000000070
    pip install --no-deps ai-dynamo==1.6.1 ai-dynamo-runtime==1.6.1
    pip install uvloop fastapi pyzmq msgspec blake3 scikit-learn kubernetes kubernetes-asyncio pmdarima
    pip install prophet filterpy pandas prometheus-client prometheus-api-client
"""

import argparse
import asyncio
import json
import logging
import os
import sys

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # libraries print to standard error, because standard output is for answers
os.environ.setdefault("DYN_LOG", "error")

from dynamo.common.forward_pass_metrics import (  # noqa: E402
    ForwardPassMetrics,
    QueuedRequestMetrics,
    ScheduledRequestMetrics,
)
from dynamo.planner.config.planner_config import PlannerConfig  # noqa: E402
from dynamo.planner.core.types import (  # noqa: E402
    EngineCapabilities,
    FpmObservations,
    TickInput,
    TrafficObservation,
    WorkerCapabilities,
    WorkerCounts,
)
from dynamo.planner.plugins.clock import VirtualClock  # noqa: E402
from dynamo.planner.plugins.orchestrator.engine_adapter import OrchestratorEngineAdapter  # noqa: E402

MODES = {"aggregated": "agg", "prefill": "prefill", "decode": "decode"}


def read_config(path, mode):
    """Return the configuration of the planner for workers of a mode."""
    import yaml

    with open(path) as f:
        config = yaml.safe_load(f) or {}
    config.setdefault("mode", mode)
    if config["mode"] != mode:
        raise ValueError(f"mode is {config['mode']}, must be {mode} for these workers")
    config.setdefault("advisory", True)
    config["environment"] = "virtual"
    return PlannerConfig.model_validate(config)


def read_engine(e):
    """Return the capabilities of a worker."""
    return EngineCapabilities(
        num_gpu=e["gpus"] or 1,
        max_num_batched_tokens=e["max_num_batched_tokens"] or None,
        max_num_seqs=e["max_num_seqs"] or None,
        context_length=e["max_model_len"] or None,
        max_kv_tokens=e["kv_tokens"] or None,
    )


def read_pass(p):
    """Return the metrics of a forward pass."""
    return ForwardPassMetrics(
        worker_id=str(p["worker"]),
        wall_time=p["seconds"],
        scheduled_requests=ScheduledRequestMetrics(
            num_prefill_requests=p["prefill_requests"],
            sum_prefill_tokens=p["prefill_tokens"],
            sum_prefill_kv_tokens=p["prefill_cached_tokens"],
            num_decode_requests=p["decode_requests"],
            sum_decode_kv_tokens=p["decode_kv_tokens"],
        ),
        queued_requests=QueuedRequestMetrics(
            num_prefill_requests=p["queued_prefill_requests"],
            sum_prefill_tokens=p["queued_prefill_tokens"],
            num_decode_requests=p["queued_decode_requests"],
            sum_decode_kv_tokens=p["queued_decode_kv_tokens"],
        ),
    )


class Planner:
    """The planner of one pool, or of a prefill and a decode pool together."""

    def __init__(self, path, mode, engines):
        self.config = read_config(path, mode)
        caps = {"decode" if role == "aggregated" else role: read_engine(e) for role, e in engines.items()}
        self.engine = OrchestratorEngineAdapter(self.config, WorkerCapabilities(**caps), clock=VirtualClock())
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.engine.bootstrap_plugins(historical_traffic=None))
        self.next = self.engine.initial_tick(0.0)
        self.passes = {role: {} for role in caps}  # by role: the latest pass of each worker, in the order of first reports
        self.taken = None  # the traffic counters at the previous call of take_traffic
        self.taken_at = 0.0

    def take_traffic(self, now, t):
        """Return the traffic since the previous call."""
        old = self.taken or dict.fromkeys(t, 0)
        d = {k: t[k] - old[k] for k in t}
        seconds, self.taken, self.taken_at = now - self.taken_at, t, now
        n, placed = d["finished"], d["placed"]
        return TrafficObservation(
            duration_s=seconds,
            num_req=float(d["requests"]),
            isl=d["input_tokens"] / n if n else 0.0,
            osl=d["output_tokens"] / n if n else 0.0,
            kv_hit_rate=d["reuse"] / placed if placed else 0.0,
        )

    def observe_passes(self, role, passes):
        """Return the latest pass of each worker, or None without passes."""
        old, fresh = self.passes[role], {p["worker"]: read_pass(p) for p in passes or []}
        self.passes[role] = {w: fresh[w] for w in old if w in fresh} | {w: p for w, p in fresh.items() if w not in old}
        return {(p.worker_id, 0): p for p in self.passes[role].values()} or None

    def tick(self, now, pools, traffic):
        """Return the wanted number of workers of each pool, and the reason. pools has ready workers, wanted workers and passes."""
        pools = {"decode" if role == "aggregated" else role: p for role, p in pools.items()}
        wanted = {role: p["workers"] for role, p in pools.items()}
        if self.next.at_s > now + 1e-9:
            return wanted, "no tick is due"
        tick = self.next
        passes = {role: self.observe_passes(role, p["passes"]) for role, p in pools.items()}
        counts = {}
        for role, p in pools.items():
            counts[f"ready_num_{role}"], counts[f"expected_num_{role}"] = p["ready"] or 0, p["workers"]
        effects = self.loop.run_until_complete(
            self.engine.tick(
                tick,
                TickInput(
                    now_s=tick.at_s,
                    traffic=self.take_traffic(now, traffic) if tick.need_traffic_metrics else None,
                    worker_counts=WorkerCounts(**counts),
                    fpm_observations=FpmObservations(**passes) if tick.need_worker_fpm else None,
                ),
            )
        )
        self.next = effects.next_tick
        for role in wanted:
            want = effects.scale_to and getattr(effects.scale_to, f"num_{role}")
            wanted[role] = wanted[role] if want is None else want
        return wanted, describe_decision(effects.diagnostics)


def describe_decision(d):
    """Return the reason of a decision of the planner."""
    why = d.load_decision_reason or d.throughput_decision_reason or "no decision"
    for name, ms in (("TTFT", d.estimated_ttft_ms), ("ITL", d.estimated_itl_ms)):
        if ms is not None:
            why += f"; {name} {ms:.4g} ms"
    if d.predicted_num_req is not None:
        why += f"; {d.predicted_num_req:.4g} requests foreseen"
    return why[:200]


def main():
    parser = argparse.ArgumentParser(description="Dynamo's planner behind scaler: process")
    parser.add_argument("--config", required=True, help="the planner's configuration, JSON or YAML")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    greeting = json.loads(sys.stdin.readline())
    if "engines" in greeting:  # tools/parityplanner: both pools together
        planner = Planner(args.config, "disagg", greeting["engines"])
        print(json.dumps({"version": 1}), file=answers, flush=True)
        for line in sys.stdin:
            t = json.loads(line)
            wanted, why = planner.tick(t["now"] / 1000.0, t["pools"], t["traffic"])
            print(json.dumps(wanted | {"why": why}), file=answers, flush=True)
        return
    role = greeting["role"]
    planner = Planner(args.config, MODES[role], {role: greeting["engine"]})
    print(json.dumps({"version": 1, "passes": True}), file=answers, flush=True)
    for line in sys.stdin:
        t = json.loads(line)
        wanted, why = planner.tick(t["now"] / 1000.0, {role: t}, t["traffic"])
        print(json.dumps({"workers": next(iter(wanted.values())), "why": why}), file=answers, flush=True)


if __name__ == "__main__":
    main()
