"""Sweeps on executors of concurrent.futures. Each task replays a part of the grid. The result is one table."""

from __future__ import annotations

import concurrent.futures
import hashlib
import itertools
import io
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _pages
from ._arguments import Files, is_list, name_of, text_of
from ._program import Bar, Progress, ReplayError, error_of, tell
from ._results import Sweep
from ._session import Session

if TYPE_CHECKING:
    import pyarrow

FEW_CELLS = 8  # cells of a task of a small grid
MANY_TASKS = 24  # minimum number of tasks of a large grid
MOST_CELLS = 40  # maximum number of cells of a task
INCOMPLETE = 4  # exit code if cells have no report

Part = tuple[bytes, int, list[str]]

_local = threading.local()  # the session of a worker thread


@dataclass(frozen=True)
class Shared:
    """A trace that tasks on any machine can read. fetch returns its bytes."""

    path: str
    digest: str
    fetch: Callable[[], bytes]

    def write(self, folder: Path) -> Path:
        """Return the path of the trace in the folder. The file is written only once."""
        path = folder / self.digest / Path(self.path).name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(self.fetch())
        return path


def share(executor: concurrent.futures.Executor, path: str) -> str | Shared:
    """Return the trace for the tasks: a Shared trace if the executor has a method share, otherwise the path."""
    put = getattr(executor, "share", None)
    if put is None or not Path(path).is_file():
        return path
    data = Path(path).read_bytes()
    return Shared(path, hashlib.sha256(data).hexdigest(), put(data))


def replay_part(sections: Mapping[str, Any], flags: Mapping[str, Any]) -> Part:
    """Replay a part of a grid in this process, and return its table, exit code and standard error."""
    if getattr(_local, "session", None) is None:
        _local.session = Session()
    shared = sections.get("trace")
    if not isinstance(shared, Shared):
        return _replay(sections, flags)
    path = str(shared.write(_local.session._folder))
    try:
        table, code, lines = _replay({**sections, "trace": path}, flags)
    except ReplayError as error:
        raise error_of(error.message.replace(path, shared.path), error.exit_code) from None
    if code == INCOMPLETE:
        table = _rename(table, path, shared.path)
    return table, code, [line.replace(path, shared.path) for line in lines]


def _rename(data: bytes, path: str, name: str) -> bytes:
    """Return a table with the path of the trace in reasons replaced by its name."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(io.BytesIO(data))
    at = table.schema.get_field_index("reason")
    if at >= 0:
        reasons = [text and text.replace(path, name) for text in table["reason"].to_pylist()]
        table = table.set_column(at, table.schema.field(at), pyarrow.array(reasons, pyarrow.string()))
    written = io.BytesIO()
    pyarrow.parquet.write_table(table, written)
    return written.getvalue()


def _replay(sections: Mapping[str, Any], flags: Mapping[str, Any]) -> Part:
    """Replay a part of a grid in the session of this thread."""
    from ._run import make, sweep_command

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
        axes["trace"] = [files.trace(one) for one in trace]  # the program also has this axis last
    elif trace is not None:
        sections = {**sections, "trace": share(executor, files.trace(trace))}
    futures: list[concurrent.futures.Future[Part]] = []
    try:
        for part in split(axes):
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


def split(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, list[Any]]]:
    """Yield the grids of the tasks in the order of their cells. A task has all values of the last axes, and a part of the axis before."""
    most = max(FEW_CELLS, min(MOST_CELLS, math.prod(map(len, axes.values())) // MANY_TASKS))
    names, whole = list(axes), 1
    while len(names) > 1 and whole * len(axes[names[-1]]) <= most:
        whole *= len(axes[names.pop()])
    *slow, cut = names
    size = max(1, most // max(1, whole))
    size = max(1, math.ceil(len(axes[cut]) / max(1, math.ceil(len(axes[cut]) / size))))  # tasks of about the same size
    rest = {name: list(axes[name]) for name in axes if name not in names}
    for values in itertools.product(*(axes[name] for name in slow)):
        for begin in range(0, len(axes[cut]), size):
            yield {**dict(zip(slow, ([value] for value in values))), cut: list(axes[cut][begin : begin + size]), **rest}


def _merge(parts: Sequence[Part], settings: Sequence[str]) -> Sweep:
    """Return one sweep with the cells of all parts."""
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
    """Return a table with some columns converted to text."""
    import pyarrow

    for i, field in enumerate(table.schema):
        if field.name in names and field.type != pyarrow.string():
            column = [None if value is None else text_of(value) for value in table[field.name].to_pylist()]
            table = table.set_column(i, pyarrow.field(field.name, pyarrow.string()), pyarrow.array(column, pyarrow.string()))
    return table
