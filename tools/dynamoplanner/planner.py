"""Runs the planner of NVIDIA Dynamo, as its Python package has it, behind `scaler: process`.

    scaler: process
    command: .venv/bin/python tools/dynamoplanner/planner.py --config planner.json
    sync: 5s

The file is the planner's own, JSON or YAML, with all of its predictors. `mode` is agg, prefill or decode, by the workers.
Needs Python 3.11 or later and the packages ai-dynamo, ai-dynamo-runtime and aisimulate (docs/autoscaling.md, Dynamo's planner).
"""

import argparse
import asyncio
import json
import logging
import os
import sys

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what libraries print is no answer
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
    """Returns the planner's configuration for workers of a role."""
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
    """Returns what the planner knows of a worker."""
    return EngineCapabilities(
        num_gpu=e["gpus"] or 1,
        max_num_batched_tokens=e["max_num_batched_tokens"] or None,
        max_num_seqs=e["max_num_seqs"] or None,
        context_length=e["max_model_len"] or None,
        max_kv_tokens=e["kv_tokens"] or None,
    )


def read_pass(p):
    """Returns the metrics of a forward pass."""
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
    """The planner of one pool."""

    def __init__(self, path, role, engine):
        self.config = read_config(path, MODES[role])
        caps = read_engine(engine)
        self.prefill = role == "prefill"
        capabilities = WorkerCapabilities(prefill=caps) if self.prefill else WorkerCapabilities(decode=caps)
        self.engine = OrchestratorEngineAdapter(self.config, capabilities, clock=VirtualClock())
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self.engine.bootstrap_plugins(historical_traffic=None))
        self.next = self.engine.initial_tick(0.0)
        self.passes = {}  # the latest of each worker, in the order in which workers reported first
        self.taken = None  # the traffic that the planner has seen
        self.taken_at = 0.0

    def take_traffic(self, now, t):
        """Returns the traffic since it was taken last."""
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

    def tick(self, line):
        """Returns the number of workers wanted, and why."""
        now, workers = line["now"] / 1000.0, line["workers"]
        if self.next.at_s > now + 1e-9:
            return workers, "no tick is due"
        tick, fresh = self.next, {p["worker"]: read_pass(p) for p in line["passes"] or []}
        self.passes = {w: fresh[w] for w in self.passes if w in fresh} | {w: p for w, p in fresh.items() if w not in self.passes}
        traffic = fpm = None
        if tick.need_traffic_metrics:
            traffic = self.take_traffic(now, line["traffic"])
        if tick.need_worker_fpm:
            seen = {(p.worker_id, 0): p for p in self.passes.values()} or None
            fpm = FpmObservations(prefill=seen) if self.prefill else FpmObservations(decode=seen)
        ready = line["ready"] or 0
        counts = (
            WorkerCounts(ready_num_prefill=ready, expected_num_prefill=workers)
            if self.prefill
            else WorkerCounts(ready_num_decode=ready, expected_num_decode=workers)
        )
        effects = self.loop.run_until_complete(
            self.engine.tick(tick, TickInput(now_s=tick.at_s, traffic=traffic, worker_counts=counts, fpm_observations=fpm))
        )
        self.next = effects.next_tick
        d = effects.diagnostics
        why = d.load_decision_reason or d.throughput_decision_reason or "no decision"
        if d.estimated_ttft_ms is not None or d.estimated_itl_ms is not None:
            why += f"; TTFT {d.estimated_ttft_ms}, ITL {d.estimated_itl_ms}"
        if d.predicted_num_req is not None:
            why += f"; {d.predicted_num_req:.4g} requests foreseen"
        want = effects.scale_to and (effects.scale_to.num_prefill if self.prefill else effects.scale_to.num_decode)
        return (workers if want is None else want), why[:200]


def main():
    parser = argparse.ArgumentParser(description="Dynamo's planner behind scaler: process")
    parser.add_argument("--config", required=True, help="the planner's configuration, JSON or YAML")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    greeting = json.loads(sys.stdin.readline())
    planner = Planner(args.config, greeting["role"], greeting["engine"])
    print(json.dumps({"version": 1, "passes": True}), file=answers, flush=True)
    for line in sys.stdin:
        workers, why = planner.tick(json.loads(line))
        print(json.dumps({"workers": workers, "why": why}), file=answers, flush=True)


if __name__ == "__main__":
    main()
