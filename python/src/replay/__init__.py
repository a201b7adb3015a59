"""Simulate clusters of LLM inference engines: replays, sweeps and plans as tables.

    import replay

    run = replay.run("requests.jsonl", workers=8, router="kv", gpu="h100", model="llama-3.1-8b")
    run.report["p99_ttft_ms"]
    run.pandas()                      # a row per request

The package includes the program replay and runs it. Keyword arguments are flags of the program, exceptions have its
error messages, and tables come from its Parquet files.
"""

from importlib.metadata import PackageNotFoundError, version

from . import flags
from ._program import CrashError, MissingFileError, ReplayError, ReplayWarning, UsageError, program
from ._results import Plan, Run, Sweep
from ._run import plan, run, sweep
from ._session import Session

try:
    __version__ = version("replay-llm")
except PackageNotFoundError:  # the package is not installed
    __version__ = "0"

__all__ = ["CrashError", "MissingFileError", "Plan", "ReplayError", "ReplayWarning", "Run", "Session", "Sweep", "UsageError", "__version__",
           "flags", "plan", "program", "run", "sweep"]
