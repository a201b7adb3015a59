"""Sweeps on shards, Dask, and a Ray cluster with two nodes give the same table as one process.

    python -m unittest discover python/tests -p test_scale.py
"""

from __future__ import annotations

import logging
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
import unittest
import warnings
from pathlib import Path
from typing import Any

import replay
from test_replay import CHAT, ROOT, Case, ExecutorCase

SCALE = ROOT / "examples" / "scale"
MANY = {"grid": {"max_num_seqs": list(range(64, 144, 4)), "workers": list(range(2, 10))}, "set": {"speedup": 16}}


class Shards(Case):
    def sweep(self, *arguments: object) -> str:
        """Run the sweep of the documentation with more arguments."""
        return self.command("sweep", "--trace", CHAT, "--grid", "workers=4,8,12,16", *arguments)

    def test_two_shards_are_one_table(self) -> None:
        one, all_ = self.folder / "one.csv", self.folder / "all.csv"
        parts = [self.folder / f"s{i}.json" for i in (1, 2)]
        self.sweep("--out", one)
        self.sweep("--shard", "1/2", "--out", parts[0])
        for rest, wrong in (([parts[1]], "s2.json"), ([], "2/2"), ([parts[0]], "1/2")):
            with self.assertRaises(subprocess.CalledProcessError) as caught:
                self.command("sweep", "merge", parts[0], *rest, "--out", all_)
            self.assertIn(wrong, caught.exception.stderr)
        self.sweep("--shard", "2/2", "--out", parts[1])
        done = parts[1].read_bytes()
        self.sweep("--shard", "2/2", "--out", parts[1])  # a retried task
        self.assertEqual(done, parts[1].read_bytes())
        self.command("sweep", "merge", *parts, "--out", all_)
        self.assertEqual(one.read_bytes(), all_.read_bytes())


class Dask(ExecutorCase):
    def setUp(self) -> None:
        super().setUp()
        try:
            import distributed
        except ImportError:
            self.skipTest("distributed is not installed")
        cluster = distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None)
        self.addCleanup(cluster.close)
        self.client = distributed.Client(cluster)
        self.addCleanup(self.client.close)

    def test_a_worker_that_is_killed_loses_nothing(self) -> None:
        executor = self.client.get_executor()
        self.check(executor)
        workers = list(self.client.run(os.getpid).values())

        def kill(what: str, done: int, total: int) -> None:
            if workers:
                os.kill(workers.pop(), getattr(signal, "SIGKILL", signal.SIGTERM))
                workers.clear()

        got = replay.sweep(trace=CHAT, **MANY, executor=executor, progress=kill)
        self.assertEqual([], workers)
        self.assertTrue(replay.sweep(trace=CHAT, **MANY).cells.equals(got.cells))


class Ray(ExecutorCase):
    """A cluster of two nodes with one CPU each."""

    cluster: Any
    node: Any = None  # the second node
    executor: Any

    @classmethod
    def setUpClass(cls) -> None:
        try:
            import ray
            from ray.cluster_utils import Cluster
        except ImportError:
            raise unittest.SkipTest("ray is not installed") from None
        os.environ["RAY_AUTH_MODE"] = "disabled"  # a token would be written to the home directory
        os.environ["PATH"] = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]  # replay, for ray_sweep.py
        warnings.simplefilter("ignore", ResourceWarning)  # of Ray's own processes
        try:
            cls.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
            cls.addClassCleanup(cls.cluster.shutdown)
            cls.node = cls.cluster.add_node(num_cpus=1)
            ray.init(address=cls.cluster.address, log_to_driver=False, logging_level=logging.CRITICAL)
        except Exception as error:  # Ray has no exception type for a busy machine
            raise unittest.SkipTest(f"ray does not start: {error}") from None
        cls.addClassCleanup(ray.shutdown)
        sys.path.insert(0, str(SCALE))
        cls.addClassCleanup(sys.path.remove, str(SCALE))
        from ray_executor import RayExecutor

        cls.executor = RayExecutor()

    def setUp(self) -> None:
        super().setUp()
        if Ray.node is None:  # a test removed the node
            Ray.node = self.cluster.add_node(num_cpus=1)

    def test_a_sweep_is_that_of_one_process(self) -> None:
        self.check(self.executor)

    def test_a_trace_is_sent_to_the_nodes(self) -> None:
        """Tasks do not read the file of the trace, but messages have its name."""
        trace = self.folder / "chat.jsonl"
        shutil.copy(CHAT, trace)
        share, shared = self.executor.share, []

        class Away(type(self.executor)):  # type: ignore[misc]
            def share(self, data: bytes) -> Any:
                trace.unlink()
                shared.append(len(data))
                return share(data)

        got = replay.sweep(trace=trace, **MANY, executor=Away())
        self.assertEqual([CHAT.stat().st_size], shared)
        self.assertTrue(replay.sweep(trace=CHAT, **MANY).cells.equals(got.cells))
        bad = self.folder / "bad.jsonl"
        bad.write_text("no trace\n")
        with self.assertWarns(replay.ReplayWarning):
            got = replay.sweep(trace=bad, grid={"workers": [1, 2]}, executor=self.executor)
        with self.assertWarns(replay.ReplayWarning):
            self.assertTrue(replay.sweep(trace=bad, grid={"workers": [1, 2]}).cells.equals(got.cells))

    def test_the_cells_of_a_node_that_is_lost_run_again(self) -> None:
        def lose(what: str, done: int, total: int) -> None:
            if Ray.node is not None:
                self.cluster.remove_node(Ray.node, allow_graceful=False)
                Ray.node = None

        got = replay.sweep(trace=CHAT, **MANY, executor=self.executor, progress=lose)
        self.assertIsNone(Ray.node)
        self.assertTrue(replay.sweep(trace=CHAT, **MANY).cells.equals(got.cells))

    def test_a_thousand_cells_take_1_3_times_that_of_two_processes(self) -> None:
        rows = CHAT.read_text().splitlines(keepends=True)[:2000]
        trace = self.folder / "short.jsonl"
        trace.write_text("".join(rows))
        flags: dict[str, Any] = {"trace": trace, "grid": {"max_num_seqs": list(range(16, 416, 4)), "workers": list(range(1, 11))}, "set": {"speedup": 16}}
        replay.sweep(trace=trace, grid={"workers": [1] * 64}, executor=self.executor)  # starts the processes of both nodes
        ratio = 1e9
        for _ in range(12):  # the machine may be busy
            begin = time.perf_counter()
            want = replay.sweep(**flags, jobs=2, progress=False)
            middle = time.perf_counter()
            got = replay.sweep(**flags, executor=self.executor, progress=False)
            ratio = min(ratio, (time.perf_counter() - middle) / (middle - begin))
            self.assertTrue(want.cells.equals(got.cells))
            if ratio <= 1.3:
                break
        self.assertLessEqual(ratio, 1.3)

    def test_shards_are_tasks(self) -> None:
        (self.folder / "grid.yaml").write_text(f"trace: {CHAT}\ngrid:\n  workers: [4, 8, 12, 16]\n")
        self.command("sweep", self.folder / "grid.yaml", "--out", self.folder / "one.csv")
        subprocess.run([sys.executable, SCALE / "ray_sweep.py", str(self.folder / "grid.yaml"), "3"], check=True, capture_output=True, cwd=self.folder,
                       env={**os.environ, "RAY_ADDRESS": self.cluster.address})
        self.assertEqual((self.folder / "one.csv").read_bytes(), (self.folder / "all.csv").read_bytes())

    def test_a_search_with_ray_tune(self) -> None:
        """The same seed gives the same trials."""
        try:
            from ray import tune  # noqa: F401
        except ImportError:
            self.skipTest("ray[tune] is not installed")
        search = runpy.run_path(str(ROOT / "examples" / "search" / "ray_tune_search.py"), run_name="ray_tune_search")["search"]
        self.addCleanup(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT))  # Ray Tune installs a handler and does not remove it
        one, two = ([(result.config, result.metrics["p99_ttft_ms"]) for result in search(str(CHAT), 4)] for _ in range(2))
        self.assertEqual(4, len({str(trial) for trial in one}))
        self.assertEqual(one, two)


if __name__ == "__main__":
    unittest.main()
