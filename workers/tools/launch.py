"""Becomes the given program, in a folder that is open already and within limits that it cannot raise.

Run as `python -I -S launch.py FOLDER_FD MEMORY FILE PROCESSES CPU_S LOCK PROGRAM ARGUMENTS…`; sizes in bytes. PROCESSES
is how many more this user may have than now. With LOCK 1 no program behind it gains rights by its set-user-id bit. On
Linux it dies with the thread that started it. It imports nothing but the standard library: starting it costs a few
milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_OPEN_FILES = 256


def command(
    argv: list[str], *, folder: int, memory: int, file: int, processes: int, cpu_s: int, lock: bool
) -> list[str]:
    """`argv`, whose first is an absolute path, wrapped in this module; `folder` is to be passed on by number."""
    numbers = [folder, memory, file, processes, cpu_s, int(lock)]
    return [sys.executable, "-I", "-S", str(Path(__file__).resolve()), *map(str, numbers), *argv]


def _tasks_of_user() -> int:
    """How many tasks this user has, which is what the kernel counts; 0 where nobody tells."""
    count = 0
    me = os.getuid()
    try:
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    count += len(os.listdir(f"/proc/{entry.name}/task")) if entry.stat().st_uid == me else 0
                except OSError:  # gone since
                    continue
    except OSError:
        return 0
    return count


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (value, value))


def main(argv: list[str]) -> int:
    """Sets everything and replaces this process; returns only when the program cannot be started (126)."""
    folder, memory, file, processes, cpu_s, lock = map(int, argv[:6])
    program = argv[6:]
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if lock:
            prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.fchdir(folder)
    os.close(folder)
    os.umask(0o077)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, cpu_s)
    _limit(resource.RLIMIT_FSIZE, file)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _limit(resource.RLIMIT_NPROC, _tasks_of_user() + processes)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and so would the program
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    _limit(resource.RLIMIT_AS, memory)
    try:
        os.execv(program[0], program)
    except OSError as error:
        print(f"cannot start {program[0]}: {error}", file=sys.stderr)
    return 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
