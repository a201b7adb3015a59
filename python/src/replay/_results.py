"""The results of commands as documents, tables, pages and charts."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _pages

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from matplotlib.axes import Axes


class Result:
    """The output of a command, in memory.

    files has the contents of its files, text its standard output, and exit_code its exit code. path is the directory of
    out, or None. A result can be pickled.
    """

    _table = ""  # the table that methods return by default

    def __init__(self, files: Mapping[str, bytes], text: str, exit_code: int, path: Path | None = None) -> None:
        self.files = dict(files)
        self.text = text
        self.exit_code = exit_code
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.files, self.text, self.exit_code, self.path)

    @property
    def tables(self) -> list[str]:
        """The names of the tables."""
        return sorted(name.rpartition(".")[0] for name in self.files if name.endswith((".parquet", ".arrow")))

    def parquet(self, table: str | None = None) -> bytes:
        """Return the bytes of a table as a Parquet file."""
        name = f"{table or self._table}.parquet"
        if name not in self.files:
            raise FileNotFoundError(f"{name}: no such table, there are {', '.join(self.tables) or 'none'}")
        return self.files[name]

    def arrow(self, table: str | None = None) -> pyarrow.Table:
        """Return a table as a pyarrow.Table."""
        stream = self.files.get(f"{table or self._table}.arrow")
        if stream is not None:
            import pyarrow

            return pyarrow.ipc.open_stream(stream).read_all()
        import pyarrow.parquet

        return pyarrow.parquet.read_table(io.BytesIO(self.parquet(table)))

    def pandas(self, table: str | None = None) -> pandas.DataFrame:
        """Return a table as a pandas DataFrame."""
        return self.arrow(table).to_pandas()

    def polars(self, table: str | None = None) -> polars.DataFrame:
        """Return a table as a Polars DataFrame."""
        import polars

        stream = self.files.get(f"{table or self._table}.arrow")
        if stream is not None:
            return polars.read_ipc_stream(stream)
        return polars.read_parquet(io.BytesIO(self.parquet(table)))

    def save(self, folder: Union[str, os.PathLike[str]]) -> Path:
        """Write the files to a new directory, and return its path."""
        path = Path(folder)
        path.mkdir(parents=True)
        for name, data in self.files.items():
            (path / name).write_bytes(data)
        return path

    def _document(self, name: str) -> Any:
        return json.loads(self.files[name])

    def _describe(self) -> str:
        return ""

    def _summary(self) -> str:
        return ""

    def _chart(self) -> str:
        return ""

    def __repr__(self) -> str:
        return f"<replay.{type(self).__name__}{self._describe()}{f' in {self.path}' if self.path else ''}>"

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text.rstrip("\n"))  # for IPython in a terminal

    def _repr_html_(self) -> str:
        try:
            return _pages.page(self._summary(), self._chart(), self.text)
        except ImportError:  # pyarrow is not installed
            return _pages.page("", "", self.text)


class Run(Result):
    """The result of a replay, with the files of replay trace --out (docs/outputs.md)."""

    _table = "requests"

    @cached_property
    def report(self) -> dict[str, Any]:
        """The report (docs/outputs.md)."""
        report: dict[str, Any] = self._document("report.json")
        return report

    @cached_property
    def info(self) -> dict[str, Any]:
        """run.json: the command line, version, inputs, settings and digests."""
        info: dict[str, Any] = self._document("run.json")
        return info

    @cached_property
    def workers(self) -> list[dict[str, Any]]:
        """workers.json: one object per worker."""
        workers: list[dict[str, Any]] = self._document("workers.json")
        return workers

    @property
    def digest(self) -> str:
        """The digest of the run. Runs with equal digests have equal results."""
        return str(self.info["digest"])

    @cached_property
    def requests(self) -> pyarrow.Table:
        """The requests: one row per request."""
        return self.arrow()

    @property
    def plot(self) -> RunPlot:
        """matplotlib charts: plot.ttft() and plot.timeline()."""
        return RunPlot(self)

    def _describe(self) -> str:
        return " " + self.digest[:15] if "run.json" in self.files else ""

    def _summary(self) -> str:
        return _pages.latencies(self.report)

    def _chart(self) -> str:
        if "requests" not in self.tables:
            return ""
        return _pages.chart("Time to first token (ms) by arrival (s)", _over_time(self))


class Sweep(Result):
    """The result of a sweep: one row per cell, with its settings and its report."""

    _table = "cells"

    @cached_property
    def cells(self) -> pyarrow.Table:
        """The cells: one row per cell."""
        return self.arrow()

    @property
    def settings(self) -> list[str]:
        """The columns of cells with the settings that the sweep varies."""
        names = list(self.cells.column_names)
        return names[1 : names.index("completed_requests") if "completed_requests" in names else len(names)]

    @property
    def plot(self) -> SweepPlot:
        """A matplotlib chart: plot("workers", "ttft_p99")."""
        return SweepPlot(self)

    def summary(self) -> tuple[list[str], list[dict[str, Any]]]:
        """Return the names of the main columns of cells, and their first 100 rows."""
        wanted = ["cell", *self.settings, "output_throughput_tok_s", "prefix_cache_reused_ratio", "median_ttft_ms", "p99_ttft_ms", "p99_itl_ms"]
        columns = [name for name in wanted if name in self.cells.column_names]
        return columns, self.cells.select(columns).slice(0, 100).to_pylist()

    def _summary(self) -> str:
        return _pages.table(*self.summary())

    def _chart(self) -> str:
        if "p99_ttft_ms" not in self.cells.column_names:
            return ""
        rows = self.cells.select(["cell", "p99_ttft_ms"]).to_pylist()
        points = [(row["cell"], row["p99_ttft_ms"]) for row in rows if row["p99_ttft_ms"] is not None]
        return _pages.chart("Time to first token, p99 (ms) by cell", {"p99": points})


class Plan(Result):
    """The result of a plan: its answer, and one row per replay."""

    _table = "replays"

    @cached_property
    def report(self) -> dict[str, Any]:
        """The answer: the object that replay plan --output json prints."""
        report: dict[str, Any] = self._document("plan.json")
        return report

    @property
    def found(self) -> bool:
        """Whether a cluster meets the objectives."""
        return bool(self.report["found"])

    @cached_property
    def replays(self) -> pyarrow.Table:
        """The replays of the search: one row per replay."""
        return self.arrow()

    def _describe(self) -> str:
        return " found" if self.found else " not found"

    def _summary(self) -> str:
        best = self.report.get("best") or {}
        recorded, sure = best.get("at_load_1") or {}, best.get("confident") or {}
        rows = [{"": "Minimum for the trace as recorded", **recorded}] if recorded else []
        if sure.get("found"):
            rows.insert(0, {"": "Recommended cluster", **sure})
        if not rows:
            return _pages.table([""], [{"": "A cluster was found" if self.found else "No cluster meets the objectives"}])
        columns = [name for name in ("workers", "prefill_workers", "decode_workers", "gpus", "cost_per_hour") if any(row.get(name) for row in rows)]
        return _pages.table(["", *columns], rows) + _pages.table(["name", "value", "limit", "unit", "met"], recorded.get("objectives", []))

    def _chart(self) -> str:
        columns = self.replays.column_names
        names = [name for name in columns if re.fullmatch(r"(p\d+|mean)_\w+_ms", name)][:1]
        if not names or "gpus" not in columns:
            return ""
        rows = self.replays.select(["gpus", "load", "resample", *names]).to_pylist()
        points = sorted((row["gpus"], row[names[0]]) for row in rows if row["load"] == 1 and row["resample"] == 0 and row[names[0]] is not None)
        least = min((value for _, value in points), default=0)
        return _pages.chart(f"{names[0]} by GPUs", {names[0]: [point for point in points if point[1] <= 20 * least]})  # growing queues would dominate the scale


class RunPlot:
    """Charts of a run. Each method draws on ax, or on new axes, and returns the axes."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def ttft(self, ax: Axes | None = None) -> Axes:
        """Draw the median and the 99th percentile of time to first token over the arrival time."""
        ax = _axes(ax)
        for label, points in _over_time(self._run).items():
            ax.plot([x for x, _ in points], [y for _, y in points], label=label)
        ax.set(xlabel="Arrival (s)", ylabel="Time to first token (ms)")
        ax.legend()
        return ax

    def timeline(self, ax: Axes | None = None) -> Axes:
        """Draw the requests in flight over time."""
        ax = _axes(ax)
        series = self._run._document("series.json")
        ended = [sum(counts) for counts in zip(series["finished"], series["lost"] or [0] * len(series["finished"]))]
        flying, times, now = [], [], 0
        for i, arrived in enumerate(series["arrived"]):
            now += arrived - ended[i]
            times.append((i + 1) * series["bin_ms"] / 1000)
            flying.append(now)
        ax.step(times, flying, where="post")
        ax.set(xlabel="Time (s)", ylabel="Requests in flight")
        return ax


class SweepPlot:
    """Charts of a sweep."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep

    def __call__(self, x: str, y: str, ax: Axes | None = None) -> Axes:
        """Draw column y over column x, with a line for each value of the other settings.

        ttft_p99 stands for the column p99_ttft_ms.
        """
        cells = self._sweep.cells
        x, y = _column(x, cells.column_names), _column(y, cells.column_names)
        others = [name for name in self._sweep.settings if name not in (x, y)]
        lines: dict[str, list[tuple[Any, Any]]] = {}
        for row in cells.to_pylist():
            label = ", ".join(f"{name}={_pages.number(row[name])}" for name in others)
            lines.setdefault(label, []).append((row[x], row[y]))
        ax = _axes(ax)
        for label, points in lines.items():
            points.sort(key=lambda point: (str(type(point[0])), point[0]))
            ax.plot([at for at, _ in points], [value for _, value in points], marker="o", label=label)
        ax.set(xlabel=x, ylabel=y)
        if others:
            ax.legend()
        return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise ImportError("plot requires matplotlib: pip install matplotlib") from error
    return matplotlib.pyplot.subplots()[1]


def _column(name: str, columns: list[str]) -> str:
    """Return the column for a name: p99_ttft_ms for ttft_p99, max-num-seqs for max_num_seqs."""
    turned = re.fullmatch(r"(\w+)_(p\d+|mean|median|min|max|std)", name)
    for other in (name, name.replace("_", "-"), f"{turned[2]}_{turned[1]}_ms" if turned else name, f"{turned[2]}_{turned[1]}_latency_ms" if turned else name):
        if other in columns:
            return other
    import difflib

    close = difflib.get_close_matches(name, columns, 1)
    raise KeyError(f"{name}: no such column" + (f", did you mean {close[0]}?" if close else ""))


def _over_time(run: Run, most: int = 60) -> dict[str, list[tuple[float, float]]]:
    """Return the median and the 99th percentile of time to first token in at most `most` bins of arrival times."""
    columns = run.arrow().select(["arrival_ms", "ttft_ms"]).to_pydict()
    known = [(at, value) for at, value in zip(columns["arrival_ms"], columns["ttft_ms"]) if value is not None]
    lines: dict[str, list[tuple[float, float]]] = {"p50": [], "p99": []}
    if not known:
        return lines
    begin, end = min(known)[0], max(known)[0]
    width = (end - begin) / most or 1.0
    bins: dict[int, list[float]] = {}
    for at, value in known:
        bins.setdefault(min(int((at - begin) / width), most - 1), []).append(value)
    for i in sorted(bins):
        values = sorted(bins[i])
        for name, share in (("p50", 0.5), ("p99", 0.99)):
            lines[name].append(((begin + (i + 0.5) * width) / 1000, values[min(int(share * len(values)), len(values) - 1)]))
    return lines
