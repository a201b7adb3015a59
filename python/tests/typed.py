"""What type checkers are to accept, and what they are to refuse: mypy --strict --warn-unused-ignores."""

from __future__ import annotations

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
    report: dict[str, Any] = plan.report
    print(report, sweep.exit_code, replay.ReplayError("no", 2).exit_code)
    return [run.digest, *run.tables]


def refused() -> None:
    replay.run(TRACE, workrs=4)  # type: ignore[call-arg]
    replay.run(TRACE, engine="tensorrt")  # type: ignore[arg-type]
    replay.run(TRACE, enable_prefix_caching="yes")  # type: ignore[arg-type]
    replay.plan(TRACE, slo="p99:ttft=2s", topology="neither")  # type: ignore[arg-type]
    replay.sweep(trace=TRACE, jobs="all")  # type: ignore[arg-type]
