"""Calls that type checkers must accept, and calls that they must reject: mypy --strict --warn-unused-ignores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import replay

TRACE = Path("requests.jsonl")


def accepted() -> list[str]:
    run: replay.Run = replay.run(TRACE, workers=4, router="kv", engine="sglang", speedup=2, slo=["ttft=1s", "p99:itl=50ms"])
    replay.run("requests.jsonl", workers="h100:4,l40s:8", max_in_flight=8, out=Path("out"), progress=lambda what, done, total: None)
    replay.run(input_tokens=100, output_tokens=20, request_count=5, engine_args={"block_size": 16})
    sweep = replay.sweep(trace=TRACE, grid={"workers": [2, 4]}, set={"speedup": 2}, jobs=2, progress=False)
    plan = replay.plan(TRACE, slo="p99:ttft=2s", try_=["tp=2,4"], topology="both", front=False)
    replay.run(TRACE, cluster={"workers": 4, "router": "kv"}, engine={"engine": "sglang", "tp": 2}, objectives={"slo": "p99:ttft=1s"}, seed=1)
    replay.plan(TRACE, slo="p99:ttft=2s", search={"topology": "both"}, engine="vllm")
    with replay.Session(TRACE, processes=2, cluster=replay.flags.Cluster(workers=4)) as session:
        again: replay.Run = session.run(tables=True, workers=8)
        again = session.run(tables="arrow", workers=8)
    again.save("out")
    with ThreadPoolExecutor() as executor:
        replay.sweep(trace=TRACE, grid={"workers": [2, 4]}, executor=executor)
    report: dict[str, Any] = plan.report
    print(report, sweep.exit_code, replay.ReplayError("no", 2).exit_code)
    return [run.digest, *run.tables]


async def awaited() -> float:
    run: replay.Run = await replay.Session(TRACE).arun(workers=4)
    return float(run.report["p99_ttft_ms"])


def refused() -> None:
    replay.run(TRACE, cluster={"workrs": 4})  # type: ignore[typeddict-unknown-key]
    replay.run(TRACE, cluster={"tp": 4})  # type: ignore[typeddict-unknown-key]
    replay.Session(TRACE).run(tables="parquet")  # type: ignore[arg-type]
    replay.Session(TRACE, workrs=4)  # type: ignore[call-arg]
    replay.run(TRACE, workrs=4)  # type: ignore[call-arg]
    replay.run(TRACE, engine="tensorrt")  # type: ignore[arg-type]
    replay.run(TRACE, enable_prefix_caching="yes")  # type: ignore[arg-type]
    replay.plan(TRACE, slo="p99:ttft=2s", topology="neither")  # type: ignore[arg-type]
    replay.sweep(trace=TRACE, jobs="all")  # type: ignore[arg-type]
