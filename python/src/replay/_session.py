"""Sessions: processes of the program that keep a trace in memory and replay it many times."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import json
import os
import queue
import select
import struct
import subprocess
import tempfile
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import flags as schema
from ._arguments import Files, merged
from ._program import INTERRUPTED, WRITTEN, CrashError, error_of, program, tell
from ._results import Run
from ._run import make, run_command

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from typing import Literal, Union

    from ._run import Trace

    Tables = Union[bool, Literal["arrow"]]


class Session:
    """Replays of one trace with different settings, in processes that read the trace once.

        with replay.Session("requests.jsonl", gpu="h100", model="llama-3.1-8b") as session:
            for workers in (4, 8, 16):
                print(session.run(workers=workers).report["p99_ttft_ms"])

    trace and the keyword arguments are as for replay.run. The keyword arguments of a call override those of the session.
    processes is the number of concurrent replays. Several threads can use a session. A session ends with close, at the
    end of its with block, or when this process ends.
    """

    def __init__(self, trace: Trace = None, *, processes: int = 1, **base: Unpack[schema.RunFlags]) -> None:
        if processes < 1:
            raise ValueError(f"processes is {processes}, must be at least 1")
        self._base = merged(base)
        folder = tempfile.TemporaryDirectory(prefix="replay-session-")
        self._folder = Path(folder.name)
        self._trace = None if trace is None else Files(self._folder).trace(trace)
        self._idle: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        for _ in range(processes):
            self._idle.put(None)  # the first call starts the process
        self._threads = concurrent.futures.ThreadPoolExecutor(processes, "replay-session")
        started: weakref.WeakSet[_Process] = weakref.WeakSet()
        self._started = started
        self._close = weakref.finalize(self, _close, started, folder)

    def run(self, *, tables: Tables = False, **flags: Unpack[schema.RunFlags]) -> Run:
        """Replay the trace like replay.run.

        The result has only the report. With tables="arrow" it also has the requests as Arrow. With tables=True it has
        all files of replay.run.
        """
        return self._run(dict(flags), tables, _Cancel())

    async def arun(self, *, tables: Tables = False, **flags: Unpack[schema.RunFlags]) -> Run:
        """Replay the trace like run. Cancelling the task cancels the replay."""
        cancel = _Cancel()
        call = functools.partial(self._run, dict(flags), tables, cancel)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except asyncio.CancelledError:
            cancel.ask()
            raise

    def close(self) -> None:
        """End the processes and their replays."""
        self._close()
        self._threads.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _run(self, flags: dict[str, Any], tables: Tables, cancel: _Cancel) -> Run:
        given = {**self._base, **merged(flags)}
        return make(Run, run_command(self._trace, given, None, tables), functools.partial(self.send, cancel=cancel), None)

    def send(self, arguments: list[str], cancel: _Cancel | None = None) -> tuple[int, str]:
        """Run a command line, and return its exit code and its standard output."""
        code, text, errors = self.ask(arguments, cancel)
        tell(errors, code)
        return code, text

    def ask(self, arguments: list[str], cancel: _Cancel | None = None) -> tuple[int, str, list[str]]:
        """Run a command line, and return its exit code, its standard output, and the lines of its standard error."""
        if not self._close.alive:
            raise ValueError("the session is closed")
        cancel = cancel or _Cancel()
        process = self._idle.get()
        try:
            if process is None:
                process = _Process(self._folder)
                self._started.add(process)
            try:
                cancel.begin(process, {"args": arguments})
                answer = process.read()
            except BaseException:  # a crash, or an interrupt inside a message
                process.kill()
                process = None
                raise
            finally:
                cancel.end()
        finally:
            self._idle.put(process)
        code = int(answer["exit_code"])
        if code == INTERRUPTED:
            raise concurrent.futures.CancelledError
        errors = str(answer["stderr"]).splitlines(keepends=True)
        if code not in WRITTEN:
            raise error_of(tell(errors, code), code)
        return code, str(answer["stdout"]), errors


class _Cancel:
    """Cancels a call from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._process: _Process | None = None

    def begin(self, process: _Process, message: Any) -> None:
        """Send the message of the call, unless the call is cancelled."""
        with self._lock:
            if self._asked:
                raise concurrent.futures.CancelledError
            process.write(message)
            self._process = process

    def end(self) -> None:
        """Record that the call has received its answer."""
        with self._lock:
            self._process = None

    def ask(self) -> None:
        """Cancel the call."""
        with self._lock:
            self._asked = True
            if self._process is not None:
                self._process.write({"cancel": True})


class _Process:
    """A process of replay session. A message is JSON with its length (4 bytes, big-endian) before it."""

    def __init__(self, folder: Path) -> None:
        self._errors = tempfile.TemporaryFile(dir=folder)  # standard error, read after a crash
        flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        # The program ends at the end of its standard input, so it ends with this process.
        self._child = subprocess.Popen([program(), "session"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0,
                                       creationflags=flags, start_new_session=os.name != "nt")
        assert self._child.stdout is not None
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            self._poll.register(self._child.stdout, select.POLLIN)

    def read(self) -> Any:
        """Return the next answer."""
        (length,) = struct.unpack(">I", self._read(4))
        return json.loads(self._read(length))

    def write(self, message: Any) -> None:
        """Send a message."""
        text = json.dumps(message).encode()
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(struct.pack(">I", len(text)) + text)
        except OSError:
            raise self._crash() from None

    def _read(self, length: int) -> bytes:
        assert self._child.stdout is not None
        data = bytearray()
        while len(data) < length:
            # Wait in steps, because another thread may receive the signal of an interrupt.
            while self._poll is not None and not self._poll.poll(100):
                pass
            part = self._child.stdout.read(length - len(data))
            if not part:
                raise self._crash()
            data += part
        return bytes(data)

    def _crash(self) -> CrashError:
        code = self._child.wait()
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace").strip()
        return CrashError(text or f"the program was ended by signal {-code}" if code < 0 else text or f"the program ended with exit code {code}", code)

    def kill(self) -> None:
        """Kill the process."""
        self._child.kill()
        self.close()

    def close(self) -> None:
        """Close the input of the process and wait for its end."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(2)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
        self._errors.close()


def _close(started: weakref.WeakSet[_Process], folder: tempfile.TemporaryDirectory[str]) -> None:
    for process in list(started):
        process.close()
    folder.cleanup()
