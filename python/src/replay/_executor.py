"""Sweeps on executors of concurrent.futures: parts of a grid in sessions of their workers, and one table of all."""

from __future__ import annotations

import concurrent.futures
import itertools
import io
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _pages
from ._arguments import Files, is_list, name_of, text_of
from ._program import Bar, Progress, tell
from ._results import Sweep
from ._session import Session

if TYPE_CHECKING:
    import pyarrow

MOST_CELLS = 8  # of a task
INCOMPLETE = 4  # the exit code where cells have no report

Part = tuple[bytes, int, list[str]]

_local = threading.local()  # of workers: the session of the latest trace


def replay_part(sections: Mapping[str, Any], flags: Mapping[str, Any]) -> Part:
    """Replay a part of a grid in this process, and return its table, exit code and standard error."""
    from ._run import make, sweep_command

    if getattr(_local, "session", None) is None:
        _local.session = Session()
    lines: list[str] = []

    def send(arguments: list[str]) -> tuple[int, str]:
        code, text, errors = _local.session.ask(arguments)
        lines.extend(errors)
        return code, text

    sections = dict(sections)
    grid = dict(sections["grid"])
    traces = grid.pop("trace", sections.pop("trace", None))
    part = make(Sweep, sweep_command(traces, {**sections, "grid": grid}, {**flags, "jobs": 1}), send, None)
    return part.parquet(), part.exit_code, lines


def sweep_on(executor: concurrent.futures.Executor, trace: Any, sections: Mapping[str, Any], flags: Mapping[str, Any], progress: Progress, folder: Path) -> Sweep:
    """Replay a grid on an executor, and return one table of all cells."""
    grid = sections.get("grid")
    if not isinstance(grid, Mapping) or not grid:
        raise TypeError("executor requires grid, a mapping of settings to lists of values")
    for name in ("deployment", "journal", "shard"):
        if flags.get(name) is not None:
            raise TypeError(f"{name} is not supported with executor")
    axes: dict[str, list[Any]] = {name: list(values) if is_list(values) else [values] for name, values in grid.items()}
    files = Files(folder)
    if is_list(trace) and not all(isinstance(row, Mapping) for row in trace):
        axes["trace"] = [files.trace(one) for one in trace]  # the program has it last, too
    elif trace is not None:
        sections = {**sections, "trace": files.trace(trace)}
    *slow, last = axes
    futures: list[concurrent.futures.Future[Part]] = []
    try:
        for values in itertools.product(*(axes[name] for name in slow)):
            for begin in range(0, len(axes[last]), MOST_CELLS):
                part = {**dict(zip(slow, ([value] for value in values))), last: axes[last][begin : begin + MOST_CELLS]}
                futures.append(executor.submit(replay_part, {**sections, "grid": part}, dict(flags)))
        bar = Bar(progress)
        try:
            for done, _ in enumerate(concurrent.futures.as_completed(futures), 1):
                bar.show(("parts", done, len(futures)))
        finally:
            bar.clear()
        return _merge([future.result() for future in futures], list(axes))
    except BaseException:
        for future in futures:
            future.cancel()
        raise


def _merge(parts: Sequence[Part], settings: Sequence[str]) -> Sweep:
    """Return the sweep of all parts."""
    import pyarrow
    import pyarrow.parquet

    tables = [pyarrow.parquet.read_table(io.BytesIO(data)) for data, _, _ in parts]
    columns = {name for table in tables for name in table.column_names}
    settings = [name for name in map(name_of, settings) if name in columns]
    values = sorted(columns - {"cell", "reason", *settings})
    texts = {name for name in columns if any(name in table.column_names and table.schema.field(name).type == pyarrow.string() for table in tables)}
    cells = pyarrow.concat_tables([_as_texts(table, texts) for table in tables], promote_options="permissive")
    cells = cells.select([name for name in ("cell", *settings, *values, "reason") if name in columns])
    cells = cells.set_column(0, cells.schema.field(0), pyarrow.array(range(cells.num_rows), cells.schema.field(0).type))
    written = io.BytesIO()
    pyarrow.parquet.write_table(cells, written)
    code = max(code for _, code, _ in parts)
    missing = sum(reason not in (None, "") for reason in cells["reason"].to_pylist()) if "reason" in columns else 0
    lines = dict.fromkeys(line for _, _, errors in parts for line in errors if line.startswith("replay: warning: "))
    if code == INCOMPLETE:
        lines[f"replay: {missing} of {cells.num_rows} cells have no report\n"] = None
    tell(list(lines), code)
    sweep = Sweep({"cells.parquet": written.getvalue()}, "", code)
    sweep.text = _pages.text(*sweep.summary())
    return sweep


def _as_texts(table: pyarrow.Table, names: set[str]) -> pyarrow.Table:
    """Return a table with the numbers of some columns as texts."""
    import pyarrow

    for i, field in enumerate(table.schema):
        if field.name in names and field.type != pyarrow.string():
            column = [None if value is None else text_of(value) for value in table[field.name].to_pylist()]
            table = table.set_column(i, pyarrow.field(field.name, pyarrow.string()), pyarrow.array(column, pyarrow.string()))
    return table
