"""Run a sweep as Ray tasks, one for each shard, and merge their tables into all.csv.

    ray job submit --working-dir . -- python ray_sweep.py grid.yaml 8

The working directory must have this file, the grid and the traces of the grid. All nodes must have replay on the PATH.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import ray


@ray.remote(max_retries=3, scheduling_strategy="SPREAD")
def run_shard(grid: str, shard: int, shards: int) -> bytes:
    """Run a shard and return the content of its result file."""
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part.json"
        subprocess.run(["replay", "sweep", grid, f"--shard={shard}/{shards}", f"--out={part}"], check=True)
        return part.read_bytes()


def main() -> int:
    grid, shards = sys.argv[1], int(sys.argv[2])
    ray.init()
    parts = ray.get([run_shard.remote(grid, i + 1, shards) for i in range(shards)])
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"part-{i}.json" for i in range(shards)]
        for path, part in zip(paths, parts):
            path.write_bytes(part)
        return subprocess.run(["replay", "sweep", "merge", *map(str, paths), "--out=all.csv", "--overwrite"]).returncode


if __name__ == "__main__":
    sys.exit(main())
