"""The package has the same tables, errors and exit codes as the program.

    python -m unittest discover python/tests

The tests use the installed package, from any folder.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import doctest
import html
import inspect
import io
import json
import multiprocessing
import os
import pickle
import pydoc
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings
import xml.etree.ElementTree
from contextlib import redirect_stderr
from pathlib import Path

import pandas
import polars
import pyarrow.parquet

import replay

ROOT = Path(__file__).resolve().parents[2]
CHAT = ROOT / "testdata" / "traces" / "chat-hour.jsonl"
OBJECTIVES = "p99:ttft=1s,p99:itl=50ms"
CLOCKED = ("wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s")


class Case(unittest.TestCase):
    """A test in a separate folder, which also has the temporary files."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(self.temporary)

    def command(self, *arguments: object) -> str:
        """Run the program without the package, and return its standard output."""
        return subprocess.run([replay.program(), *map(str, arguments)], check=True, capture_output=True, text=True, encoding="utf-8").stdout

    def assertNothingLeft(self) -> None:
        self.assertEqual([], sorted(self.temporary.iterdir()))


class Results(Case):
    def test_run_is_the_command(self) -> None:
        run = replay.run(CHAT, workers=4, router="kv", gpu="h100", model="llama-3.1-8b", slo=["ttft=500ms", "itl=50ms"], passes=True)
        there = self.folder / "there"
        text = self.command("trace", CHAT, "--workers", 4, "--router", "kv", "--gpu", "h100", "--model", "llama-3.1-8b",
                            "--slo", "ttft=500ms,itl=50ms", "--passes", "--out", there)
        said = json.loads((there / "run.json").read_text())
        self.assertEqual(said["digest"], run.digest)
        report = json.loads((there / "report.json").read_text())
        self.assertEqual(list(report), list(run.report))
        for key in report:
            if key not in CLOCKED:
                self.assertEqual(report[key], run.report[key], key)
        self.assertEqual(["passes", "requests", "work"], run.tables)
        for table in run.tables:
            self.assertEqual((there / f"{table}.parquet").read_bytes(), run.parquet(table), table)
        self.assertEqual(json.loads((there / "workers.json").read_text()), run.workers)
        self.assertEqual(text.split("Saved run to")[0].splitlines()[:8], str(run).splitlines()[:8])
        self.assertNotIn("Saved run to", run.text)
        self.assertEqual(0, run.exit_code)
        self.assertEqual(f"<replay.Run {run.digest[:15]}>", repr(run))

    def test_tables_in_three_forms(self) -> None:
        run = replay.run(CHAT, workers=2)
        rows = run.report["num_requests"]
        self.assertEqual(rows, run.requests.num_rows)
        self.assertEqual(rows, len(run.pandas()))
        self.assertEqual(rows, run.polars().height)
        self.assertEqual(run.requests.column("ttft_ms").to_pylist(), run.polars()["ttft_ms"].to_list())
        self.assertEqual(run.requests.column_names, list(run.pandas().columns))
        with self.assertRaisesRegex(FileNotFoundError, "passes.parquet: no such table, there are requests, work"):
            run.arrow("passes")

    def test_sweep_is_the_command(self) -> None:
        page = self.folder / "page.html"
        done = replay.sweep(trace=CHAT, set={"speedup": 16}, grid={"router": ["round_robin", "kv"], "workers": [2, "4"]}, out=page)
        there = self.folder / "there.parquet"
        text = self.command("sweep", "--trace", CHAT, "--set", "speedup=16", "--grid", "router=round_robin,kv", "--grid", "workers=2,4", "--out", there)
        self.assertTrue(pyarrow.parquet.read_table(there).equals(done.cells))
        self.assertEqual(text, done.text)
        self.assertEqual(4, done.cells.num_rows)
        self.assertIn("<html", page.read_text()[:200])
        # The same settings as a mapping, as a file and as texts.
        spec = {"trace": str(CHAT), "set": {"speedup": 16}, "grid": {"router": ["round_robin", "kv"], "workers": [2, 4]}}
        self.assertTrue(done.cells.equals(replay.sweep(spec).cells))
        file = self.folder / "grid.yaml"
        file.write_text(json.dumps(spec))
        self.assertTrue(done.cells.equals(replay.sweep(file).cells))
        self.assertTrue(done.cells.equals(replay.sweep(trace=CHAT, set="speedup=16", grid=["router=round_robin,kv", "workers=2,4"]).cells))
        with self.assertRaisesRegex(TypeError, "grid: with a file, must be text"):
            replay.sweep(file, grid={"workers": [1]})

    def test_sweep_of_values_with_commas_and_of_several_traces(self) -> None:
        rows = [{"timestamp": 0, "input_length": 10, "output_length": 5, "hash_ids": [1]}] * 3
        done = replay.sweep(trace=[CHAT, pandas.DataFrame(rows)], grid={"max_num_seqs": [8, 16]}, set={"engine-args": {"block_size": 16, "num_gpu_blocks": 4096}})
        self.assertEqual([3705, 3705, 3, 3], sorted(done.pandas()["completed_requests"].astype(int), reverse=True))
        self.assertIn("max-num-seqs", done.cells.column_names)

    def test_plan_is_the_command(self) -> None:
        table, page = self.folder / "table.csv", self.folder / "page.html"
        flags = {"speedup": 16, "gpu": "h100", "model": "llama-3.1-8b", "front": False, "resamples": 4}
        plan = replay.plan(CHAT, slo=OBJECTIVES, out=[table, page], **flags)
        there = self.folder / "there.parquet"
        text = self.command("plan", CHAT, "--slo", OBJECTIVES, "--speedup", 16, "--gpu", "h100", "--model", "llama-3.1-8b",
                            "--front=false", "--resamples", 4, "--out", there)
        self.assertEqual(there.read_bytes(), plan.parquet())
        self.assertEqual(text, plan.text)
        answer = json.loads(self.command("plan", CHAT, "--slo", OBJECTIVES, "--speedup", 16, "--gpu", "h100", "--model", "llama-3.1-8b",
                                         "--front=false", "--resamples", 4, "--output", "json"))
        self.assertEqual(answer, plan.report)
        self.assertTrue(plan.found)
        self.assertEqual(plan.replays.num_rows, len(table.read_text().splitlines()) - 1)
        self.assertTrue(page.exists())
        two = replay.plan(CHAT, slo=OBJECTIVES, try_=["max-num-seqs=64,128", "router=kv"], **flags)
        self.assertEqual(2, len(two.report["variants"]))

    def test_a_closed_loop_is_replay_concurrency(self) -> None:
        there = self.folder / "there"
        self.command("concurrency", CHAT, "--max-in-flight", 32, "--workers", 2, "--out", there)
        digest = json.loads((there / "run.json").read_text())["digest"]
        self.assertEqual(digest, replay.run(CHAT, max_in_flight=32, workers=2).digest)
        self.assertEqual(digest, replay.run(CHAT, config={"max-in-flight": 32, "workers": 2}).digest)

    def test_config_by_either_name_and_a_keyword_wins(self) -> None:
        want = replay.run(CHAT, workers=4, max_num_seqs=64).digest
        self.assertEqual(want, replay.run(CHAT, config={"workers": 4, "max-num-seqs": 64}).digest)
        self.assertEqual(want, replay.run(CHAT, config={"workers": 2, "max-num-seqs": 8}, workers=4, max_num_seqs=64).digest)
        file = self.folder / "flags.yaml"
        file.write_text("workers: 4\nmax-num-seqs: 64\n")
        self.assertEqual(want, replay.run(CHAT, config=file).digest)
        self.assertNotEqual(want, replay.run(CHAT, workers=4).digest)
        self.assertEqual(want, replay.run(CHAT, workers=4, max_num_seqs=64, seed=None).digest)

    def test_mappings_are_files_or_json(self) -> None:
        faults = [{"at": "10m", "worker": 1, "what": "dies", "back": "60s"}]
        arguments = {"block_size": 16, "num_gpu_blocks": 4096}
        file = self.folder / "faults.yaml"
        file.write_text(json.dumps(faults))
        there = self.folder / "there"
        self.command("trace", CHAT, "--workers", 2, "--faults", file, "--engine-args", json.dumps(arguments), "--out", there)
        run = replay.run(CHAT, workers=2, faults=faults, engine_args=arguments)
        self.assertEqual(json.loads((there / "run.json").read_text())["lifecycles"], run.info["lifecycles"])
        self.assertNotEqual(replay.run(CHAT, workers=2, engine_args=arguments).info["lifecycles"], run.info["lifecycles"])
        by_name = replay.run(CHAT, deployment={"gpu": "h100", "model": "llama-3.1-8b"}).info["lifecycles"]
        self.assertEqual(replay.run(CHAT, gpu="h100", model="llama-3.1-8b").info["lifecycles"], by_name)

        cards = [{"gpu": gpu, "model": "llama-3.1-8b"} for gpu in ("h100", "l40s")]
        cells = replay.sweep(trace=CHAT, set={"faults": faults, "workers": 2.0}, grid={"deployment": cards, "engine_args": [arguments]}).pandas()
        for i, card in enumerate(cards):
            run = replay.run(CHAT, workers=2, faults=faults, deployment=card, engine_args=arguments)
            self.assertEqual(run.report["p99_ttft_ms"], cells["p99_ttft_ms"][i])
        self.assertNotEqual(cells["p99_ttft_ms"][0], cells["p99_ttft_ms"][1])

    def test_where_the_program_leaves_no_directory(self) -> None:
        run = replay.run(CHAT, stream=True, workers=2)
        self.assertEqual(replay.run(CHAT, workers=2).report["mean_ttft_ms"], run.report["mean_ttft_ms"])
        self.assertEqual([], run.tables)
        self.assertEqual("<replay.Run>", repr(run))
        run = replay.run(input_tokens=10, output_tokens=5, request_count=5, mode="online")
        self.assertEqual(5, run.requests.num_rows)
        self.assertEqual(5, run.report["completed_requests"])
        self.assertNotIn("Saved", run.text)
        with self.assertRaises(replay.ReplayError) as caught:
            replay.run(help=True)
        self.assertIn("Usage:", str(caught.exception))

    def test_frames_are_traces(self) -> None:
        rows = [json.loads(line) for line in CHAT.read_text().splitlines()]
        want = replay.run(CHAT, workers=2).digest
        for trace in (rows, pandas.DataFrame(rows), polars.DataFrame(rows), pyarrow.Table.from_pylist(rows)):
            self.assertEqual(want, replay.run(trace, workers=2).digest, type(trace))
        with self.assertRaises(replay.ReplayError) as caught:
            replay.run([rows[0], {"timestamp": -5}])
        self.assertEqual("trace.jsonl:2: hash_ids is missing", str(caught.exception))

    def test_out_is_kept_and_nothing_else(self) -> None:
        out = self.folder / "out"
        run = replay.run(CHAT, out=out)
        self.assertEqual(out, run.path)
        self.assertNothingLeft()
        with self.assertRaisesRegex(replay.ReplayError, "out: exists, must be a new path"):
            replay.run(CHAT, out=out)
        replay.run(CHAT, out=out, overwrite=True)
        run = replay.run(CHAT)
        self.assertIsNone(run.path)
        self.assertNothingLeft()

    def test_results_outlive_folders_and_processes(self) -> None:
        out = self.folder / "out"
        here = replay.run(CHAT, workers=2, out=out)
        shutil.rmtree(out)
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            there = pool.submit(replay.run, CHAT, workers=2)
            sweep = pool.submit(replay.sweep, trace=CHAT, grid={"workers": [2, 4]}, set={"speedup": 16})
            plan = pool.submit(replay.plan, CHAT, slo=OBJECTIVES, speedup=16, gpu="h100", model="llama-3.1-8b", front=False, resamples=0, vary="none")
        run = there.result()
        self.assertEqual(here.digest, run.digest)
        self.assertTrue(here.requests.equals(run.requests))
        self.assertEqual(here.workers, run.workers)
        self.assertEqual([2.0, 4.0], sweep.result().cells["workers"].to_pylist())
        self.assertTrue(plan.result().found)
        self.assertGreater(plan.result().replays.num_rows, 1)
        again = pickle.loads(pickle.dumps(run))
        self.assertEqual(run.report, again.report)
        self.assertEqual(run.requests, again.requests)
        saved = run.save(self.folder / "saved")
        self.assertEqual(here.digest, json.loads((saved / "run.json").read_text())["digest"])
        self.command("diff", saved, self.saved(here))
        self.assertNothingLeft()

    def saved(self, run: replay.Run) -> Path:
        return run.save(self.folder / "again")

    def test_notebooks_show_a_summary_and_a_chart(self) -> None:
        run = replay.run(CHAT, workers=2)
        sweep = replay.sweep(trace=CHAT, grid={"workers": [2, 4], "router": ["kv", "round_robin"]}, set={"speedup": 16})
        plan = replay.plan(CHAT, slo=OBJECTIVES, speedup=16, gpu="h100", model="llama-3.1-8b", front=False, resamples=0, vary="none")
        for result, shown in ((run, "Time to first token (ms)"), (sweep, "round_robin"), (plan, "p99 ttft")):
            page = result._repr_html_()
            xml.etree.ElementTree.fromstring(page)
            self.assertEqual(1, page.count("<svg"))
            self.assertIn("<table", page)
            self.assertIn(shown, page)
            self.assertIn(html.escape(result.text[:40]), page)
            self.assertLess(len(page), 20_000)
        self.assertEqual(["workers", "router"], sweep.settings)
        self.assertNotIn("<svg", replay.run(CHAT, stream=True)._repr_html_())
        with unittest.mock.patch.dict(sys.modules, {"pyarrow": None, "pyarrow.parquet": None}):
            self.assertIn(html.escape(run.text[:40]), run._repr_html_())

    def test_charts_of_matplotlib(self) -> None:
        try:
            import matplotlib
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install matplotlib"):
                replay.run(CHAT).plot.ttft()
            self.skipTest("matplotlib is not installed")
        matplotlib.use("Agg")
        run = replay.run(CHAT, workers=2)
        self.assertEqual(["p50", "p99"], [line.get_label() for line in run.plot.ttft().lines])
        flying = run.plot.timeline().lines[0].get_ydata()
        self.assertGreater(max(flying), 0)
        self.assertEqual(0, flying[-1])
        sweep = replay.sweep(trace=CHAT, grid={"workers": [4, 2], "router": ["kv", "round_robin"]}, set={"speedup": 16})
        ax = sweep.plot("workers", "ttft_p99")
        self.assertEqual(["router=kv", "router=round_robin"], [line.get_label() for line in ax.lines])
        self.assertEqual([2, 4], list(ax.lines[0].get_xdata()))
        self.assertEqual("p99_ttft_ms", ax.get_ylabel())
        self.assertIs(ax, sweep.plot("workers", "output_throughput_tok_s", ax=ax))
        with self.assertRaisesRegex(KeyError, "wrkers: no such column, did you mean workers"):
            sweep.plot("wrkers", "ttft_p99")


class Errors(Case):
    def refused(self, code: int, *arguments: object, call=replay.run, **flags: object) -> str:
        with self.assertRaises(replay.ReplayError) as caught:
            call(*arguments, **flags)
        self.assertEqual(code, caught.exception.exit_code)
        self.assertEqual(caught.exception.message, str(caught.exception))
        self.assertNothingLeft()
        return str(caught.exception)

    def test_the_words_are_those_of_the_program(self) -> None:
        self.assertEqual("--workrs: no such flag, did you mean --workers?", self.refused(2, CHAT, workrs=2))
        self.assertEqual("--workers=x: must be an integer, or a mix as h100:4,l40s:8", self.refused(2, CHAT, workers="x"))
        self.assertEqual("--workers=2,4: must be an integer, or a mix as h100:4,l40s:8", self.refused(2, CHAT, workers=[2, 4]))
        self.assertEqual("open nowhere.jsonl: no such file or directory", self.refused(1, "nowhere.jsonl"))
        self.assertEqual("--slo is required: the objectives that the cluster must meet, as --slo p99:ttft=2s,p99:itl=50ms", self.refused(2, CHAT, call=replay.plan))
        self.assertEqual("grid.yaml:3: wrkers: no such flag of a replay, did you mean workers?",
                         self.refused(2, trace=CHAT, grid={"wrkers": [1]}, call=replay.sweep))
        self.assertIn("no such flag", self.refused(2, call=replay.sweep, jobz=1))

    def test_errors_have_types_of_python(self) -> None:
        for kind, base, trace, flags in ((replay.UsageError, ValueError, CHAT, {"workers": "x"}), (replay.UsageError, ValueError, CHAT, {"workrs": 2}),
                                         (replay.MissingFileError, FileNotFoundError, "nowhere.jsonl", {}),
                                         (replay.MissingFileError, FileNotFoundError, CHAT, {"faults": "nowhere.yaml"})):
            with self.assertRaises(base) as caught:
                replay.run(trace, **flags)
            self.assertIs(kind, type(caught.exception))
            self.assertIsInstance(caught.exception, replay.ReplayError)
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((str(caught.exception), caught.exception.exit_code, kind), (str(again), again.exit_code, type(again)))

    @unittest.skipIf(os.name == "nt", "signals of Windows differ")
    def test_a_program_that_is_killed_is_an_error(self) -> None:
        def kill(*at: object) -> None:
            for child in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
                for pid in child.read_text().split():
                    os.kill(int(pid), signal.SIGKILL)

        if sys.platform != "linux":
            self.skipTest("children are found in /proc")
        with self.assertRaisesRegex(replay.CrashError, "ended by signal 9") as caught:
            replay.plan(CHAT, progress=kill, **Interrupts.LONG)
        self.assertIsInstance(caught.exception, RuntimeError)

    def test_a_value_is_never_a_flag(self) -> None:
        self.assertIn("--trace-format=--help", self.refused(2, CHAT, trace_format="--help"))
        self.assertIn("--help", self.refused(1, "--help"))  # --help is the name of a trace here

    def test_what_came_out_badly_warns(self) -> None:
        with self.assertWarnsRegex(replay.ReplayWarning, "no cluster considered meets the objectives") as caught:
            plan = replay.plan(CHAT, slo="p99:ttft=1us", gpu="h100", model="llama-3.1-8b", max_workers=2, front=False, resamples=0)
        self.assertEqual(__file__, caught.filename)
        self.assertFalse(plan.found)
        self.assertEqual(6, plan.exit_code)
        with self.assertWarns(replay.ReplayWarning):
            run = replay.run(CHAT, slo="p99:ttft=1us", slo_exit=True)
        self.assertEqual(6, run.exit_code)
        self.assertFalse(run.report["slo_met"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            replay.run(CHAT, gpu="h100", model="llama-3.1-8b")


class Sessions(Case):
    # A replay that takes seconds.
    LONG = {"max_in_flight": 4, "input_tokens": 100, "output_tokens": 20000, "request_count": 40000, "router": "kv", "workers": 4}

    def equal(self, want: replay.Run, got: replay.Run) -> None:
        self.assertEqual({k: v for k, v in want.report.items() if k not in CLOCKED}, {k: v for k, v in got.report.items() if k not in CLOCKED})

    def test_a_session_replays_as_run_does(self) -> None:
        want = replay.run(CHAT, workers=4, router="kv", gpu="h100", model="llama-3.1-8b")
        with replay.Session(CHAT, router="kv", gpu="h100", workers=2) as session:
            for _ in range(2):
                got = session.run(workers=4, model="llama-3.1-8b", tables=True)
                self.assertEqual(want.digest, got.digest)
                self.assertEqual(want.parquet(), got.parquet())
            got = session.run(workers=4, model="llama-3.1-8b")
            self.equal(want, got)
            self.assertEqual([], got.tables)
            got = session.run(workers=4, model="llama-3.1-8b", tables="arrow")
            self.equal(want, got)
            self.assertEqual((["requests"], ["report.json", "requests.arrow"]), (got.tables, sorted(got.files)))
            got.requests.validate(full=True)
            self.assertTrue(want.requests.equals(pickle.loads(pickle.dumps(got)).requests))
            self.assertTrue(want.polars().equals(got.polars()))
            self.assertIn("<svg", got._repr_html_())
            self.assertEqual("<replay.Run>", repr(got))
            faults = [{"at": "10m", "worker": 1, "what": "dies"}]
            self.equal(replay.run(CHAT, workers=2, router="kv", gpu="h100", model="llama-3.1-8b", faults=faults), session.run(model="llama-3.1-8b", faults=faults))
            self.equal(replay.run(CHAT, max_in_flight=8, workers=2, router="kv", gpu="h100", model="llama-3.1-8b"), session.run(max_in_flight=8, model="llama-3.1-8b"))
            with self.assertRaisesRegex(replay.UsageError, "--workrs: no such flag, did you mean --workers?"):
                session.run(workrs=2)
            with self.assertWarns(replay.ReplayWarning) as caught:
                self.assertEqual(6, session.run(slo="p99:ttft=1us", slo_exit=True, model="llama-3.1-8b").exit_code)
            self.assertEqual(__file__, caught.filename)
        with self.assertRaisesRegex(ValueError, "the session is closed"):
            session.run()
        rows = [json.loads(line) for line in CHAT.read_text().splitlines()]
        with replay.Session(rows) as session:
            self.equal(replay.run(CHAT, workers=2), session.run(workers=2))
        self.assertNothingLeft()

    def test_a_call_takes_5_ms_more_than_the_simulation(self) -> None:
        with replay.Session(CHAT) as session:
            least = 1e9
            for _ in range(200):
                begin = time.perf_counter()
                run = session.run(workers=8)
                least = min(least, (time.perf_counter() - begin) * 1000 - run.report["wall_time_ms"])
                if least <= 5:
                    break
        self.assertLessEqual(least, 5)

    def test_threads_share_a_session(self) -> None:
        with replay.Session(CHAT, processes=2) as session, concurrent.futures.ThreadPoolExecutor(6) as pool:
            runs = list(pool.map(lambda workers: session.run(workers=workers), [1, 2, 3, 4] * 5))
            self.assertEqual(2, len(session._started))
        for i, run in enumerate(runs):
            self.equal(runs[i % 4], run)
        self.assertEqual(4, len({run.report["p99_ttft_ms"] for run in runs}))

    def test_tasks_of_asyncio_and_their_end(self) -> None:
        async def work() -> None:
            with replay.Session(CHAT, processes=2) as session:
                one, two = await asyncio.gather(session.arun(workers=2), session.arun(workers=4))
                self.equal(replay.run(CHAT, workers=2), one)
                self.equal(replay.run(CHAT, workers=4), two)
            with replay.Session() as session:
                task = asyncio.create_task(session.arun(**self.LONG))
                waiting = asyncio.create_task(session.arun(**self.LONG))
                await asyncio.sleep(0.2)
                begin = time.monotonic()
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(task, 0.1)
                waiting.cancel()
                await session.arun(input_tokens=10, output_tokens=5, request_count=5)
                self.assertLess(time.monotonic() - begin, 1.5)
                self.assertEqual(1, len(session._started))  # the process was not replaced

        asyncio.run(work())
        self.assertNothingLeft()

    def test_an_interrupt_ends_the_call(self) -> None:
        with replay.Session() as session:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            begin = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                session.run(**self.LONG)
            self.assertLess(time.monotonic() - begin, 1.3)
            self.assertEqual(5, session.run(input_tokens=10, output_tokens=5, request_count=5).report["completed_requests"])
        self.assertNothingLeft()

    def test_a_crash_is_an_error_and_the_next_call_works(self) -> None:
        with replay.Session() as session:
            threading.Timer(0.3, lambda: [process._child.kill() for process in session._started]).start()
            with self.assertRaisesRegex(replay.CrashError, "ended by signal 9" if os.name != "nt" else "exit code"):
                session.run(**self.LONG)
            self.assertEqual(5, session.run(input_tokens=10, output_tokens=5, request_count=5).report["completed_requests"])

    @unittest.skipUnless(sys.platform == "linux", "processes are looked up in /proc")
    def test_a_session_ends_with_its_process(self) -> None:
        script = ("import replay, sys\n"
                  f"session = replay.Session({str(CHAT)!r})\n"
                  "session.run()\n"
                  "print(*[process._child.pid for process in session._started], flush=True)\n"
                  f"session.run(**{self.LONG!r})\n")
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(self.temporary)})
        assert child.stdout is not None
        with child.stdout:
            program = Path("/proc", child.stdout.readline().strip())
            self.assertTrue(program.exists())
            child.kill()
            child.wait()
        end = time.monotonic() + 3
        while program.exists() and "Z" not in (program / "stat").read_text().split(")")[1] and time.monotonic() < end:
            time.sleep(0.01)
        self.assertLess(time.monotonic(), end)

    def test_a_trace_that_changes_is_read_again(self) -> None:
        trace = self.folder / "trace.jsonl"
        row = '{"timestamp": 0, "input_length": 10, "output_length": 5, "hash_ids": [1]}\n'
        with replay.Session(trace) as session:
            for rows in (1, 2):
                trace.write_text(row * rows)
                self.assertEqual(rows, session.run().report["num_requests"])


class ExecutorCase(Case):
    def check(self, executor: concurrent.futures.Executor) -> None:
        """A sweep on an executor has the table of one without."""
        flags = {"trace": CHAT, "grid": {"router": ["round_robin", "kv"], "max_num_seqs": [64, 256], "workers": list(range(2, 12))}, "set": {"speedup": 16}}
        want, told = replay.sweep(**flags), []
        got = replay.sweep(**flags, executor=executor, progress=lambda *at: told.append(at))
        self.assertTrue(want.cells.equals(got.cells))
        self.assertEqual(want.settings, got.settings)
        self.assertEqual(("parts", 8, 8), told[-1])
        self.assertEqual(0, got.exit_code)
        self.assertIn("p99_ttft_ms", got.text.splitlines()[0])
        self.assertEqual(41, len(got.text.splitlines()))
        self.assertTrue(pickle.loads(pickle.dumps(got)).cells.equals(want.cells))


class Executors(ExecutorCase):
    def test_processes(self) -> None:
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
            self.check(executor)
        self.assertNothingLeft()

    def test_threads_errors_and_several_traces(self) -> None:
        rows = [json.loads(line) for line in CHAT.read_text().splitlines()][:200]
        with concurrent.futures.ThreadPoolExecutor(2) as executor:
            self.check(executor)
            flags = {"trace": [CHAT, rows], "grid": {"workers": [1, "x", 2]}, "set": {"engine-args": {"block_size": 16, "num_gpu_blocks": 4096}}}
            with self.assertWarnsRegex(replay.ReplayWarning, "2 of 6 cells have no report") as caught:
                got = replay.sweep(**flags, executor=executor)
            self.assertEqual(__file__, caught.filename)
            with self.assertWarns(replay.ReplayWarning):
                want = replay.sweep(**flags)
            self.assertEqual(want.exit_code, got.exit_code)
            same = [name for name in want.cells.column_names if name != "trace"]  # the second is a temporary file
            self.assertEqual(want.cells.column_names, got.cells.column_names)
            self.assertTrue(want.cells.select(same).equals(got.cells.select(same)))
            with self.assertRaisesRegex(replay.UsageError, "wrkers: no such flag of a replay, did you mean workers?"):
                replay.sweep(trace=CHAT, grid={"wrkers": [1, 2]}, executor=executor)
            with self.assertRaisesRegex(replay.MissingFileError, "nowhere.jsonl"):
                replay.sweep(trace="nowhere.jsonl", grid={"workers": [1, 2]}, executor=executor)
            for wrong in ({"grid": "workers=1,2"}, {"grid": {"workers": [1]}, "out": "table.csv"}, {"grid": {"workers": [1]}, "journal": "done.jsonl"}):
                with self.assertRaisesRegex(TypeError, "executor"):
                    replay.sweep(trace=CHAT, executor=executor, **wrong)


class Examples(Case):
    def test_a_search_with_optuna(self) -> None:
        """200 trials take at most 10 s of two cores, and the same seed gives the same trials."""
        try:
            import optuna  # noqa: F401
        except ImportError:
            self.skipTest("optuna is not installed")
        search = runpy.run_path(str(ROOT / "examples" / "search" / "optuna_search.py"))["search"]
        before = os.times()
        study = search(str(CHAT), 200)
        now = os.times()
        took = sum(now[i] - before[i] for i in range(4))
        self.assertEqual(200, len(study.trials))
        self.assertLess(study.best_value, study.trials[0].value)
        self.assertLess(took, 2 * 10, "seconds of processor time")
        again = search(str(CHAT), 20)
        self.assertEqual([trial.value for trial in study.trials[:20]], [trial.value for trial in again.trials])
        self.assertEqual([trial.params for trial in study.trials[:20]], [trial.params for trial in again.trials])


class Interrupts(Case):
    LONG = {"slo": OBJECTIVES, "gpu": "h100", "model": "llama-3.1-8b", "resamples": 2000, "vary": "none"}

    def children(self) -> str:
        """Return the processes that this thread started: the tracker of multiprocessing may be one."""
        if sys.platform != "linux":
            return ""
        return Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text()

    def test_an_interrupt_ends_the_program_within_a_second(self) -> None:
        sent: list[float] = []

        def interrupt(what: str, done: int, total: int) -> None:
            if not sent:
                sent.append(time.monotonic())
                threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()

        table, before = self.folder / "table.csv", self.children()
        with self.assertRaises(KeyboardInterrupt):
            replay.plan(CHAT, out=table, progress=interrupt, **self.LONG)
        self.assertLess(time.monotonic() - sent[0], 1)
        self.assertNothingLeft()
        self.assertEqual([self.temporary], list(self.folder.iterdir()))
        self.assertEqual(before, self.children())

    def test_ctrl_c_on_a_terminal_reaches_the_whole_group(self) -> None:
        script = ("import sys, replay\n"
                  "def started(*at):\n    print('started', flush=True)\n"
                  f"replay.plan({str(CHAT)!r}, progress=started, out={str(self.folder / 'table.csv')!r}, **{self.LONG!r})\n")
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True, env={**os.environ, "TMPDIR": str(self.temporary)})
        self.assertEqual("started\n", child.stdout.readline())
        os.killpg(child.pid, signal.SIGINT)
        started = time.monotonic()
        _, errors = child.communicate(timeout=20)
        self.assertLess(time.monotonic() - started, 1.5)  # includes the end of Python
        self.assertIn("KeyboardInterrupt", errors)
        self.assertEqual(-signal.SIGINT, child.returncode)
        self.assertNothingLeft()
        self.assertEqual([self.temporary], list(self.folder.iterdir()))


class Progress(Case):
    def test_a_function_is_told(self) -> None:
        told: list[tuple[str, int, int]] = []
        replay.sweep(trace=CHAT, grid={"workers": [1, 2, 3, 4]}, progress=lambda *at: told.append(at))
        self.assertTrue(told)
        self.assertEqual({("cells", 4)}, {(what, total) for what, _, total in told})
        self.assertEqual(sorted(done for _, done, _ in told), [done for _, done, _ in told])
        self.assertLessEqual(told[-1][1], 4)

    def test_a_line_is_drawn_and_cleared_where_it_is_wanted(self) -> None:
        for progress, drawn in ((True, True), (False, False), (None, False)):
            with redirect_stderr(io.StringIO()) as err:
                replay.plan(CHAT, slo=OBJECTIVES, gpu="h100", model="llama-3.1-8b", speedup=16, resamples=2, front=False, progress=progress)
            self.assertEqual(drawn, "replays [" in err.getvalue(), progress)
            self.assertNotIn("\n", err.getvalue())
            last = err.getvalue().split("\r")[-2:]
            self.assertEqual("", "".join(last).strip())


class Shape(Case):
    def test_the_command_is_installed(self) -> None:
        want = self.command("version", "--json")
        got = subprocess.run([sys.executable, "-m", "replay", "version", "--json"], capture_output=True, text=True, check=True)
        self.assertEqual(want, got.stdout)
        script = Path(sys.executable).with_name("replay.exe" if os.name == "nt" else "replay")
        got = subprocess.run([script, "trace", "--workrs=2"], capture_output=True, text=True)
        self.assertEqual((2, "replay: --workrs: no such flag, did you mean --workers?\n"), (got.returncode, got.stderr))

    def test_help_is_readable(self) -> None:
        for function in (replay.run, replay.plan, replay.sweep):
            text = pydoc.plain(pydoc.render_doc(function))
            self.assertLess(len(text.splitlines()), 60)  # Python 3.13 prints a line per parameter
            self.assertLess(len(inspect.signature(function).parameters), 20)
        for name, about in replay.flags.GROUPS.items():
            group = getattr(replay.flags, name.title().replace("_", ""))
            self.assertIn(about[1:], group.__doc__)
            for setting in group.__annotations__:
                self.assertRegex(group.__doc__, f"(?m)^    ({setting}|{re.sub('^(prefill|decode)_', '', setting)})[: ]")
            self.assertTrue(any(name in inspect.signature(function).parameters for function in (replay.run, replay.plan)))
        self.assertIn("trace_block_size (tokens): ", replay.flags.Workload.__doc__ or "")

    def test_groups_are_flat_names(self) -> None:
        want = replay.run(CHAT, workers=4, router="kv", engine="sglang", seed=7).digest
        self.assertEqual(want, replay.run(CHAT, cluster=dict(workers=4, router="kv"), engine=dict(engine="sglang"), limits={"seed": 7}).digest)
        self.assertEqual(want, replay.run(CHAT, cluster={"workers": 2, "router": "kv"}, workers=4, engine="sglang", seed=7).digest)
        with replay.Session(CHAT, cluster={"workers": 2, "router": "kv"}, engine={"engine": "sglang"}) as session:
            self.assertEqual(want, session.run(cluster={"workers": 4}, seed=7, tables=True).digest)
        with self.assertRaisesRegex(replay.UsageError, "--workrs: no such flag, did you mean --workers?"):
            replay.run(CHAT, cluster={"workrs": 2})
        plan = replay.plan(CHAT, speedup=16, engine={"gpu": "h100", "model": "llama-3.1-8b"}, search={"slo": OBJECTIVES, "front": False, "resamples": 0, "vary": "none"})
        self.assertTrue(plan.found)

    def test_the_page_of_the_documentation(self) -> None:
        page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
        text = re.sub("^```.*$", "", page, flags=re.MULTILINE)  # because these lines would end the printed block
        test = doctest.DocTestParser().get_doctest(text, {}, "api.md", "docs/api.md", 0)
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        said: list[str] = []
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(ROOT)
        result = runner.run(test, out=said.append)
        self.assertGreater(result.attempted, 10)
        self.assertEqual(0, result.failed, "".join(said))


if __name__ == "__main__":
    unittest.main()
