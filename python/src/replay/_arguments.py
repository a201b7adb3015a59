"""Keyword arguments as a command line, and what a command line cannot hold as files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _flags


def name_of(key: str) -> str:
    """Return the flag of a keyword argument: max_num_seqs is max-num-seqs, try_ is try."""
    return key.rstrip("_").replace("_", "-")


def text_of(value: Any) -> str:
    """Return a value as the program reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, (os.PathLike, str)):
        return os.fspath(value)
    return str(value)


def is_list(value: Any) -> bool:
    """Report whether a value holds several."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


class Files:
    """Files that a command line names, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def path(self, name: str) -> Path:
        """Return the path of a new file."""
        self.count += 1
        return self.folder / (f"{self.count}-{name}" if self.count > 1 else name)

    def write(self, name: str, value: Any) -> str:
        """Write a mapping or a list as JSON, which YAML is too, and return the path."""
        path = self.path(name + ".yaml")
        path.write_text(json.dumps(value, default=text_of, indent=1), encoding="utf-8")
        return str(path)

    def trace(self, trace: Any) -> str:
        """Return the path of a trace: a path as it is, a frame or a list of rows as JSONL."""
        if isinstance(trace, (str, os.PathLike)):
            return os.fspath(trace)
        path = self.path("trace.jsonl")
        with path.open("w", encoding="utf-8") as out:
            for rows in _batches(trace):
                for row in rows:
                    known = {key: value for key, value in row.items() if value is not None}
                    out.write(json.dumps(known, default=str, separators=(",", ":")) + "\n")
        return str(path)

    def flag(self, key: str, value: Any) -> list[str]:
        """Return a keyword argument as the program takes it; None is as if it were not given."""
        name = name_of(key)
        if value is None:
            return []
        if isinstance(value, Mapping) or is_list(value) and any(isinstance(v, Mapping) for v in value):
            value = json.dumps(value, default=text_of) if name in _flags.JSON else self.write(name, value)
        if is_list(value):
            if name in _flags.REPEATED:
                return [f"--{name}={text_of(v)}" for v in value]
            value = ",".join(map(text_of, value))
        return [f"--{name}={text_of(value)}"]

    def flags(self, flags: Mapping[str, Any]) -> list[str]:
        """Return keyword arguments as the program takes them; config may be a mapping of others."""
        config = flags.get("config")
        if isinstance(config, Mapping):
            given = {name_of(key) for key in flags}
            rest = {key: value for key, value in config.items() if name_of(key) not in given}
            flags = {**rest, **{key: value for key, value in flags.items() if key != "config"}}
        return [argument for key, value in flags.items() for argument in self.flag(key, value)]

    def grid(self, sections: Mapping[str, Any]) -> str:
        """Write what a sweep varies to a file of a grid, and return its path."""
        return self.write("grid", {key: _renamed(value) for key, value in sections.items()})


def _renamed(section: Any) -> Any:
    """Return a section of a grid with the names of flags."""
    if not isinstance(section, Mapping):
        return section
    return {name_of(key): _cells(value) for key, value in section.items()}


def _cells(value: Any) -> Any:
    """Return a value, or several, as a file of a grid has them."""
    if is_list(value):
        return [_cells(v) for v in value]
    if isinstance(value, Mapping):
        return json.dumps(value, default=text_of)
    return text_of(value)


def _batches(rows: Any) -> Any:
    """Return a frame of pandas, Polars or Arrow, or a list of mappings, as lists of mappings."""
    if is_list(rows) and all(isinstance(row, Mapping) for row in rows):
        return [rows]
    import pyarrow as pa

    table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    return (batch.to_pylist() for batch in table.to_batches(max_chunksize=8192))
