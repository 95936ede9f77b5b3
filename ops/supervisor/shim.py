"""Becomes the given command, which then dies with the process that started it.

Run as `python -I -S shim.py PARENT_PID SIGNAL COMMAND…`. On Linux it asks the kernel for SIGNAL when the parent
thread ends (prctl(2), PR_SET_PDEATHSIG, which survives execve), so that even a supervisor killed with SIGKILL
leaves no processes behind. Elsewhere it only execs. It imports nothing but the standard library: starting it
costs a few milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def command(argv: list[str], *, signum: signal.Signals = signal.SIGKILL) -> list[str]:
    """`argv` wrapped so that the process gets `signum` when the calling thread ends.

    Call it, and start the result, from a thread that lives as long as the child should: the main thread.
    """
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(os.getpid()), str(int(signum)), *argv]


def die_with(parent: int, signum: int) -> bool:
    """Asks for the signal when the parent of this process ends; False if it has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
    return sys.platform != "linux" or os.getppid() == parent


def main(argv: list[str]) -> int:
    """Arms the signal and replaces this process; returns only when the command cannot be started (127)."""
    parent, signum, *target = argv
    if not die_with(int(parent), int(signum)):
        return 1
    try:
        os.execvp(target[0], target)
    except OSError as error:
        print(f"cannot start {target[0]}: {error}", file=sys.stderr)
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
