"""What a command leaves: its files, as documents and tables."""

from __future__ import annotations

import json
import shutil
import weakref
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Result:
    """The files that a command has left in a folder, and what it printed.

    text is what the command prints, exit_code what it ended with. path is the folder; it is
    removed with this object, unless out named one.
    """

    _table = ""  # the name of the table that is meant where none is named

    def __init__(self, path: Path, text: str, exit_code: int, temporary: Path | None) -> None:
        self.path = path
        self.text = text
        self.exit_code = exit_code
        if temporary is not None:
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)

    @property
    def tables(self) -> list[str]:
        """The names of the tables that there are."""
        return sorted(path.stem for path in self.path.glob("*.parquet"))

    def file(self, table: str | None = None) -> Path:
        """Return the Parquet file of a table."""
        path = self.path / f"{table or self._table}.parquet"
        if not path.exists():
            raise FileNotFoundError(f"{path.name}: no such table, there are {', '.join(self.tables) or 'none'}")
        return path

    def arrow(self, table: str | None = None) -> pyarrow.Table:
        """Return a table as one of Arrow."""
        import pyarrow.parquet

        return pyarrow.parquet.read_table(self.file(table), memory_map=False)

    def pandas(self, table: str | None = None) -> pandas.DataFrame:
        """Return a table as a frame of pandas."""
        return self.arrow(table).to_pandas()

    def polars(self, table: str | None = None) -> polars.DataFrame:
        """Return a table as a frame of Polars, which reads the file itself."""
        import polars

        return polars.read_parquet(self.file(table))

    def _document(self, name: str) -> Any:
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    def _describe(self) -> str:
        return ""

    def __repr__(self) -> str:
        return f"<replay.{type(self).__name__}{self._describe()} in {self.path}>"

    def __str__(self) -> str:
        return self.text

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self.text.rstrip("\n"))  # in a notebook


class Run(Result):
    """A replay: the directory that replay trace --out leaves (docs/outputs.md)."""

    _table = "requests"

    @cached_property
    def report(self) -> dict[str, Any]:
        """The report (docs/report.md)."""
        report: dict[str, Any] = self._document("report.json")
        return report

    @cached_property
    def info(self) -> dict[str, Any]:
        """run.json: the command line, version, inputs, settings and digests."""
        info: dict[str, Any] = self._document("run.json")
        return info

    @cached_property
    def workers(self) -> list[dict[str, Any]]:
        """workers.json: an object per worker."""
        workers: list[dict[str, Any]] = self._document("workers.json")
        return workers

    @property
    def digest(self) -> str:
        """What identifies the run: two runs with one digest are the same."""
        return str(self.info["digest"])

    @cached_property
    def requests(self) -> pyarrow.Table:
        """A row per request."""
        return self.arrow()

    def _describe(self) -> str:
        return " " + self.digest[:15] if (self.path / "run.json").exists() else ""


class Sweep(Result):
    """A sweep: a row per cell, with its settings and its report."""

    _table = "cells"

    @cached_property
    def cells(self) -> pyarrow.Table:
        """A row per cell."""
        return self.arrow()


class Plan(Result):
    """A plan: its answer, and a row per replay that it made."""

    _table = "replays"

    @cached_property
    def report(self) -> dict[str, Any]:
        """The answer, as replay plan --output json prints it."""
        report: dict[str, Any] = self._document("plan.json")
        return report

    @property
    def found(self) -> bool:
        """Whether a cluster meets the objectives."""
        return bool(self.report["found"])

    @cached_property
    def replays(self) -> pyarrow.Table:
        """A row per replay."""
        return self.arrow()

    def _describe(self) -> str:
        return " found" if self.found else " not found"
