"""Run the cells of python/example.ipynb, and compare their output with the output in the file.

    python python/tests/notebook.py             # fails if a cell fails or has another output
    python python/tests/notebook.py --rewrite   # writes the current output to the file
"""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

PATH = Path(__file__).resolve().parents[1] / "example.ipynb"


def shown(cell: Any) -> list[str]:
    """Return the lines of the output of a cell."""
    return json.dumps(cell.get("outputs", []), indent=1, sort_keys=True).splitlines()


def main() -> int:
    before = nbformat.read(PATH, as_version=4)
    after = nbformat.read(PATH, as_version=4)
    NotebookClient(after, kernel_name="python3", timeout=300, record_timing=False, resources={"metadata": {"path": str(PATH.parent)}}).execute()
    after.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    cells = 0
    for i, cell in enumerate(after.cells):
        cell.metadata = {}
        if cell.cell_type != "code":
            continue
        cells += 1
        # Progress on standard error differs between runs.
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for line in difflib.unified_diff(shown(before.cells[i]), shown(cell), f"cell {i} in the notebook", f"cell {i} now", lineterm="", n=1):
            print(line)
    same = before.cells == after.cells
    if "--rewrite" in sys.argv:
        nbformat.write(after, PATH)
        return 0
    print(f"{cells} cells of {PATH.name} were run: {'as the notebook shows' if same else 'some show something else: notebook.py --rewrite keeps it'}")
    return 0 if same and cells > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
