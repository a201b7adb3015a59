"""Keyword arguments as a command line. Values that do not fit a command line become temporary files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import flags as schema


def name_of(key: str) -> str:
    """Return the flag of a keyword argument: max-num-seqs for max_num_seqs, try for try_."""
    return key.rstrip("_").replace("_", "-")


def text_of(value: Any) -> str:
    """Return the text of a value for the program."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # Frames have 8.0 for the whole number 8, which --workers rejects.
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else float.__repr__(value)
    if isinstance(value, (os.PathLike, str)):
        return os.fspath(value)
    return str(value)


def is_list(value: Any) -> bool:
    """Report whether a value is a list of values."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


class Files:
    """The temporary files of a command line, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def path(self, name: str) -> Path:
        """Return the path of a new file."""
        self.count += 1
        return self.folder / (f"{self.count}-{name}" if self.count > 1 else name)

    def write(self, name: str, value: Any) -> str:
        """Write a mapping or a list to a YAML file, as JSON, and return the path."""
        path = self.path(name + ".yaml")
        path.write_text(json.dumps(value, default=text_of, indent=1), encoding="utf-8")
        return str(path)

    def trace(self, trace: Any) -> str:
        """Return the path of a trace. A frame or a list of rows is written to a JSONL file."""
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
        """Return the arguments for a keyword argument. None gives no arguments."""
        name = name_of(key)
        if value is None:
            return []
        if is_list(value) and name in schema.REPEATED:
            return [f"--{name}={self.value(name, v)}" for v in value]
        return [f"--{name}={self.value(name, value)}"]

    def value(self, name: str, value: Any) -> str:
        """Return the value of a flag as text. A mapping or a list of mappings becomes JSON or the path of a file."""
        if isinstance(value, Mapping) or is_list(value) and any(isinstance(v, Mapping) for v in value):
            return json.dumps(value, default=text_of) if name in schema.JSON else self.write(name, value)
        return ",".join(map(text_of, value)) if is_list(value) else text_of(value)

    def flags(self, flags: Mapping[str, Any]) -> list[str]:
        """Return the arguments for keyword arguments."""
        return [argument for key, value in flags.items() for argument in self.flag(key, value)]

    def grid(self, sections: Mapping[str, Any]) -> str:
        """Write the sections of a sweep to a YAML file, and return its path."""
        return self.write("grid", {key: self._section(value, several=key == "grid") for key, value in sections.items()})

    def _section(self, section: Any, *, several: bool) -> Any:
        """Return a section with the names of flags. If several is set, a flag can have a list of values."""
        if not isinstance(section, Mapping):
            return section
        cells: dict[str, Any] = {}
        for key, value in section.items():
            name = name_of(key)
            cells[name] = [self.value(name, v) for v in value] if several and is_list(value) else self.value(name, value)
        return cells


def merged(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags by name, including the flags in groups and in config. A keyword argument overrides both."""
    own = {name_of(key): value for key, value in flags.items() if not _is_group(key, value)}
    for key, value in flags.items():
        if _is_group(key, value):
            own = {**{name_of(name): inner for name, inner in value.items()}, **own}
    config = own.get("config")
    if not isinstance(config, Mapping):
        return own
    del own["config"]
    return {**{name_of(key): value for key, value in config.items()}, **own}


def _is_group(key: str, value: Any) -> bool:
    return key in schema.GROUPS and isinstance(value, Mapping)


def _batches(rows: Any) -> Any:
    """Return the rows of a frame of pandas, Polars or Arrow, or of a list of mappings, as lists of mappings."""
    if is_list(rows) and all(isinstance(row, Mapping) for row in rows):
        return [rows]
    import pyarrow as pa

    table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    return (batch.to_pylist() for batch in table.to_batches(max_chunksize=8192))
