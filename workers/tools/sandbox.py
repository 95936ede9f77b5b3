"""bubblewrap around a program: it sees a read-only system, the workspace, nothing else, and no network by default.

Whether it works here (it may be missing, or the kernel may forbid user namespaces) is found out once a process.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32")
_ETC = (
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
    "/etc/nsswitch.conf", "/etc/passwd", "/etc/ssl", "/etc/ca-certificates", "/etc/timezone", "/etc/mime.types",
)  # fmt: skip
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/services")
_NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")


@dataclass(frozen=True)
class Sandbox:
    """What programs get to see: `workspace` at its own path, writable below `writable` (absolute), and `folders`."""

    workspace: Path
    writable: tuple[Path, ...]
    folders: tuple[Path, ...] = ()
    network: bool = False

    def around(self, argv: Sequence[str], cwd: Path) -> list[str]:
        """The command (absolute path and arguments) that runs `argv` inside."""
        known = [*_SYSTEM, *_ETC, *(_NETWORK if self.network else ())]
        more = [str(one) for one in self.folders if not any(one.is_relative_to(there) for there in _SYSTEM)]
        return [
            program(),
            *_NAMESPACES,
            *(() if self.network else ("--unshare-net",)),
            "--die-with-parent",
            *("--cap-drop", "ALL"),
            *("--hostname", "sandbox"),
            *(part for path in (*known, *more) for part in _read_only(path)),
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"),
            *("--ro-bind", str(self.workspace), str(self.workspace)),
            *(part for path in self.writable for part in ("--bind-try", str(path), str(path))),
            *("--remount-ro", "/"),
            *("--chdir", str(cwd)),
            "--",
            *argv,
        ]


def _read_only(path: str) -> tuple[str, ...]:
    if os.path.islink(path):  # /bin -> usr/bin
        return ("--symlink", os.readlink(path), path)
    return ("--ro-bind-try", path, path)


@functools.cache
def program() -> str:
    """The path of bubblewrap, empty if it is not installed."""
    return shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin") or ""


@functools.cache
def unusable() -> str:
    """Why there is no sandbox on this host, empty if there is one. Tries it, the first time."""
    if not program():
        return "bubblewrap (bwrap) is not installed"
    root = Path("/usr")
    try:
        done = subprocess.run(
            Sandbox(root, ()).around(["/usr/bin/env", "true"], root),
            capture_output=True,
            timeout=10,
            env={"PATH": "/usr/bin:/bin"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be started: {error}"
    said = done.stderr.decode("utf-8", "replace").strip()[-200:]
    return "" if done.returncode == 0 else f"bubblewrap does not work here: {said or f'exit code {done.returncode}'}"
