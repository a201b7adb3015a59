"""The program as a child process: its output, progress, errors and exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import IO, Union

# Progress is True, False, None (a progress line on terminals only), or a function of the unit, the number of finished
# units, and their total.
Progress = Union[bool, None, Callable[[str, int, int], object]]

INTERRUPTED = 130
# Exit codes with which the program has written all output (docs/command-line.md).
WRITTEN = (0, 4, 6)
PATIENCE = 0.5  # seconds before the progress line is drawn


class ReplayError(Exception):
    """An error of the program, with its message and exit code (docs/command-line.md)."""

    __module__ = "replay"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message, exit_code)
        self.message = message
        self.exit_code = exit_code

    def __str__(self) -> str:
        return self.message


class UsageError(ReplayError, ValueError):
    """An argument that the program rejects (exit code 2)."""

    __module__ = "replay"


class MissingFileError(ReplayError, FileNotFoundError):
    """A file that does not exist."""

    __module__ = "replay"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message, exit_code)
        self.errno, self.strerror = errno.ENOENT, message


class CrashError(ReplayError, RuntimeError):
    """A signal ended the program, or the program found an internal error (exit code 8)."""

    __module__ = "replay"


def error_of(message: str, exit_code: int) -> ReplayError:
    """Return the exception for an error message and exit code of the program."""
    if exit_code == 2:
        return UsageError(message, exit_code)
    if exit_code == 1 and re.search("no such file or directory|cannot find the (file|path) specified", message):
        return MissingFileError(message, exit_code)
    if exit_code < 0 or exit_code == 8:
        return CrashError(message, exit_code)
    return ReplayError(message, exit_code)


class ReplayWarning(UserWarning):
    """A warning of the program."""

    __module__ = "replay"


def program() -> str:
    """Return the path of the program, for commands that have no function in this package."""
    path = Path(__file__).with_name("bin") / ("replay.exe" if os.name == "nt" else "replay")
    if not path.exists():
        raise FileNotFoundError(f"{path}: not found, install the wheel of this platform, or make it: make wheel")
    return str(path)


def call(arguments: list[str], progress: Progress) -> tuple[int, str]:
    """Run the program and return its exit code and its standard output.

    A warning of the program becomes a ReplayWarning, and an error becomes a ReplayError. An interrupt ends the program.
    """
    env = {**os.environ, "REPLAY_PROGRESS": "lines"}
    # Only this process forwards interrupts, because a second interrupt would end the child before its cleanup.
    flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    child = subprocess.Popen([program(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=env, creationflags=flags, start_new_session=os.name != "nt",
                             encoding="utf-8", errors="replace")
    listener = _Listener(child)
    try:
        listener.wait(Bar(progress))
    except BaseException:
        _end(child)
        raise
    if child.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    message = tell(listener.errors, child.returncode)
    if child.returncode not in WRITTEN:
        raise error_of(message, child.returncode)
    return child.returncode, listener.printed


def tell(lines: list[str], exit_code: int) -> str:
    """Emit the warnings of the program, and return the other lines of its standard error."""
    prefix, rest = "replay: warning: ", []
    for line in lines:
        if line.startswith(prefix):
            _warn(line[len(prefix):].rstrip())
        else:
            rest.append(line)
    message = re.sub(r"\Areplay: ", "", "".join(rest)).strip()
    if message and exit_code in WRITTEN:
        _warn(message)
    if exit_code < 0:
        return message or f"the program was ended by signal {-exit_code}"
    return message or f"the program ended with exit code {exit_code}"


def _warn(text: str) -> None:
    """Emit a warning for the line that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, ReplayWarning, stacklevel=level)


def _end(child: subprocess.Popen[str]) -> None:
    """Interrupt the program, so that it removes unfinished files, or kill it."""
    try:
        with contextlib.suppress(OSError):
            child.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.9)
    finally:
        child.kill()
        child.wait()


class _Listener:
    """Reads the output of a child while it runs."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None and child.stderr is not None
        self.child = child
        self.printed = ""
        self.errors: list[str] = []
        self.progress: tuple[str, int, int] | None = None  # the latest progress
        self.threads = [threading.Thread(target=self._read, args=(child.stdout,), daemon=True),
                        threading.Thread(target=self._listen, args=(child.stderr,), daemon=True)]
        for thread in self.threads:
            thread.start()

    def _read(self, out: IO[str]) -> None:
        with out:
            self.printed = out.read()

    def _listen(self, err: IO[str]) -> None:
        with err:
            for line in err:
                counted = re.match(r"progress: (\d+) of (\d+) (.+)", line)
                if counted:
                    self.progress = (counted[3], int(counted[1]), int(counted[2]))
                else:
                    self.errors.append(line)

    def wait(self, bar: Bar) -> None:
        """Wait for the end of the child. It waits in steps, because interrupts are handled between the steps."""
        try:
            for thread in self.threads:
                while thread.is_alive():
                    thread.join(0.1)
                    bar.show(self.progress)
            while self.child.poll() is None:
                time.sleep(0.001)
        finally:
            bar.clear()


class Bar:
    """A progress line on standard error. It is drawn in a notebook only if progress is True, because notebooks keep each line."""

    def __init__(self, progress: Progress) -> None:
        self.shown: tuple[str, int, int] | None = None
        self.width = 0
        self.begin = time.monotonic() + PATIENCE
        self.call = progress if callable(progress) else None
        self.draws = progress is True or progress is None and sys.stderr.isatty()

    def show(self, at: tuple[str, int, int] | None) -> None:
        if at is None or at == self.shown:
            return
        self.shown = at
        what, done, total = at
        if self.call is not None:
            self.call(what, done, total)
        elif self.draws and time.monotonic() >= self.begin:
            full = 30 * min(done, total) // total
            text = f"{what} [{'=' * full}{' ' * (30 - full)}] {done}/{total}"
            print("\r" + text.ljust(self.width), end="", file=sys.stderr, flush=True)
            self.width = len(text)

    def clear(self) -> None:
        if self.width:
            print("\r" + " " * self.width + "\r", end="", file=sys.stderr, flush=True)
