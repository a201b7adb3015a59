"""The commands as functions."""

from __future__ import annotations

import functools
import inspect
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import flags as schema
from ._arguments import Files, is_list, merged
from ._program import Progress, ReplayError, UsageError, call, error_of
from ._results import Plan, Result, Run, Sweep

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from typing import TypeVar, Union

    from typing_extensions import Unpack

    Kind = TypeVar("Kind", bound=Result)
    Out = Union[str, os.PathLike[str], None]
    Command = Callable[[Files, Path], list[str]]
    # Trace is a path, a DataFrame of pandas or Polars, an Arrow table, or a list of rows.
    Trace = Any


def run(trace: Trace = None, *, out: Out = None, progress: Progress = None, **flags: Unpack[schema.RunFlags]) -> Run:
    """Replay a workload. This function runs replay trace, or replay concurrency if max_in_flight is given.

    trace is a file in any format of docs/traces.md, a frame, or a list of mappings. Without a trace, flags such as
    request_count and input_tokens describe a synthetic workload.

    The settings are the flags of the command, with underscores for dashes: num_gpu_blocks=4096. They can be grouped:
    cluster={"workers": 8, "router": "kv"}. A flag that names a file also accepts the content of the file, as a mapping
    or a list of mappings: deployment={"gpu": "h100"}, faults=[{"at": "10m", "worker": 3, "what": "dies"}]. config={...}
    can have any settings.

    out names a directory for the files of the run. With stream, or a mode other than offline, the program writes no
    directory: the result has the report, and in real time also the requests. progress is True, False, None (a progress
    line on terminals only), or a function of the unit, the number of finished units, and their total.

    If requests did not complete, or if an objective is missed with slo_exit, the function emits a warning and exit_code
    is not 0. Any other failure is a ReplayError with the program's error message.
    """
    out = out or None
    return make(Run, run_command(trace, merged(flags), out, True), functools.partial(call, progress=progress), out)


def run_command(trace: Trace, given: Mapping[str, Any], out: Out, tables: Union[bool, str]) -> Command:
    """Return the command line of a replay. tables decides its output: a directory, the report only, or the report and the requests as Arrow."""
    clock = "none" if given.get("stream") or tables is not True else given.get("mode") or "offline"

    def command(files: Files, folder: Path) -> list[str]:
        arguments = ["trace" if given.get("max-in-flight") is None else "concurrency", *files.flags(given)]
        if out is not None:
            arguments.append(f"--out={os.fspath(out)}")
        elif clock == "offline":
            arguments.append(f"--out={folder}")
        else:
            folder.mkdir()
            arguments += files.flag("report-json", given.get("report-json") or folder / "report.json")
            if tables == "arrow":
                arguments += files.flag("requests", given.get("requests") or folder / "requests.arrow")
            elif clock == "online":
                arguments += files.flag("requests", given.get("requests") or folder / "requests.parquet")
        return arguments if trace is None else [*arguments, "--", files.trace(trace)]

    return command


def sweep(spec: Any = None, *, trace: Trace = None, grid: Any = None, set: Any = None, out: Any = None, progress: Progress = None,
          executor: Executor | None = None, **flags: Unpack[schema.SweepFlags]) -> Sweep:
    """Replay every cell of a grid. This function runs replay sweep.

        replay.sweep(trace="requests.jsonl", grid={"router": ["round_robin", "kv"], "workers": [2, 4, 8]})

    grid maps flags to lists of values. The last flag varies fastest. set has the flags of all cells. spec is a file with
    trace, set and grid, or a mapping of them. trace is a trace as for run, or a list of traces. out names one or more
    files for the table: .csv, .json, .parquet, or .html for a page. Every other flag of the command is a keyword
    argument; `replay sweep --help-all` describes them.

    executor is an Executor of concurrent.futures that replays parts of the grid, each in a session. If it has a method
    share, then share(data) must return a function without arguments that returns the data on any worker. Only this
    process reads the file of the trace then.
    """
    sections: dict[str, Any] = dict(spec) if isinstance(spec, Mapping) else {}
    for key, value in (("set", set), ("grid", grid)):
        if isinstance(value, Mapping):
            sections[key] = {**sections.get(key, {}), **value}
    if sections and spec is not None and not isinstance(spec, Mapping):
        raise TypeError(f"{next(iter(sections))}: with a file, must be text, as 'workers=1,2'")
    trace = sections.pop("trace", None) if trace is None else trace
    if executor is not None:
        from ._executor import sweep_on

        if out is not None or set is not None and not isinstance(set, Mapping):
            raise TypeError("out and a set that is no mapping are not supported with executor")
        with tempfile.TemporaryDirectory(prefix="replay-") as folder:
            return sweep_on(executor, trace, sections, flags, progress, Path(folder))
    texts = {key: value for key, value in (("set", set), ("grid", grid), ("out", out)) if not isinstance(value, Mapping)}
    command = sweep_command(trace, sections, {**flags, **texts}, None if isinstance(spec, Mapping) else spec)
    return make(Sweep, command, functools.partial(call, progress=progress), None)


def sweep_command(trace: Any, sections: Mapping[str, Any], flags: Mapping[str, Any], spec: Any = None) -> Command:
    """Return the command line of a sweep."""

    def command(files: Files, folder: Path) -> list[str]:
        arguments = ["sweep", *files.flags(flags), f"--out={folder / 'cells.parquet'}"]
        if trace is not None:
            several = is_list(trace) and not all(isinstance(row, Mapping) for row in trace)
            arguments += [f"--trace={files.trace(one)}" for one in (trace if several else [trace])]
        if sections:
            arguments += ["--", files.grid(sections)]
        elif spec is not None:
            arguments += ["--", str(spec)]
        return arguments

    return command


def plan(trace: Trace = None, *, out: Any = None, progress: Progress = None, **flags: Unpack[schema.PlanFlags]) -> Plan:
    """Find the smallest cluster that meets objectives, and the highest load it sustains. This function runs replay plan.

        replay.plan("requests.jsonl", slo="p99:ttft=2s,p99:itl=50ms", gpu="h100", model="llama-3.1-8b")

    trace and the settings are as for run. If deployment is a list, trace is a list of the same length. The keyword of
    --try is try_, because try is reserved in Python: try_=["tp=2,4"]. out names one or more files for the table: .csv,
    .json, .parquet, or .html for a page. If no cluster is found, the function emits a warning and found is False.
    """
    given = merged(flags)

    def command(files: Files, folder: Path) -> list[str]:
        arguments = ["plan", *files.flags(given), *files.flag("out", out), f"--out={folder / 'replays.parquet'}"]
        arguments.append(f"--report-json={folder / 'plan.json'}")
        if is_list(given.get("deployment")) and is_list(trace):  # several models share one pool of GPUs
            return arguments + [f"--trace={files.trace(one)}" for one in trace]
        return arguments if trace is None else [*arguments, "--", files.trace(trace)]

    return make(Plan, command, functools.partial(call, progress=progress), None)


def make(kind: type[Kind], command: Command, send: Callable[[list[str]], tuple[int, str]], out: Out) -> Kind:
    """Run a command line and return its result. Temporary files are removed."""
    with tempfile.TemporaryDirectory(prefix="replay-") as temporary:
        folder, inputs = Path(temporary, "run"), Path(temporary, "inputs")
        if kind is not Run:
            folder.mkdir()
        inputs.mkdir()
        try:
            exit_code, text = send(command(Files(inputs), folder))
        except ReplayError as error:
            # An error in a mapping names the key in the mapping, not the temporary file.
            raise error_of(error.message.replace(f"{inputs}{os.sep}", ""), error.exit_code) from None
        if out is None:
            # These lines name temporary files.
            text = re.sub(r"(?m)^Saved (run|full report|requests) to: .*\n", "", text)
        else:
            folder = Path(out)
        if not folder.is_dir():
            raise UsageError(text.strip() or "the program wrote nothing", exit_code)  # for example, the output of --help
        files = {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}
    return kind(files, text, exit_code, None if out is None else folder)


def _describe(function: Callable[..., Result], settings: type) -> None:
    """Add the groups of settings to the signature and the docstring of a function."""
    own, groups = inspect.signature(function), [name for name in schema.GROUPS if name in settings.__annotations__]
    parameters = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    parameters += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in groups]
    parameters += [p for p in own.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    setattr(function, "__signature__", own.replace(parameters=parameters))
    lines = [f"    {name}: {schema.GROUPS[name]}" for name in groups]
    function.__doc__ = f"{inspect.cleandoc(function.__doc__ or '')}\n\nGroups of settings. help(replay.flags.Cluster) describes those of cluster.\n\n" + "\n".join(lines)


_describe(run, schema.RunFlags)
_describe(plan, schema.PlanFlags)
