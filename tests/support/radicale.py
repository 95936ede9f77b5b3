"""A real CalDAV server for tests: Radicale as a process, with users and passwords, in a folder of its own."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.dovecot import free_port

_CONFIG = """
[server]
hosts = 127.0.0.1:{port}
ssl = False
[auth]
type = htpasswd
htpasswd_filename = {folder}/users
htpasswd_encryption = plain
delay = 0
[rights]
type = owner_only
[storage]
filesystem_folder = {folder}/collections
[logging]
level = warning
"""
_MAKE = """<?xml version="1.0" encoding="utf-8"?>
<mkcol xmlns="DAV:" xmlns:C="urn:ietf:params:xml:ns:caldav"><set><prop>
<resourcetype><collection/><C:calendar/></resourcetype><displayname>{name}</displayname>
<C:supported-calendar-component-set><C:comp name="{component}"/></C:supported-calendar-component-set>
</prop></set></mkcol>"""


@dataclass(frozen=True)
class Radicale:
    """A server that runs."""

    url: str
    folder: Path

    def request(self, method: str, path: str, login: str, body: str = "") -> str:
        """One request as `user:password`; the body of the answer. Raises urllib's HTTPError."""
        token = base64.b64encode(login.encode()).decode()
        headers = {"Authorization": f"Basic {token}", "Content-Type": "text/calendar; charset=utf-8"}
        request = urllib.request.Request(self.url + path, body.encode() or None, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as response:
            return str(response.read().decode())

    def make_calendar(self, login: str, path: str, name: str, component: str = "VEVENT") -> None:
        """A calendar of `user`, at `user/path/`."""
        user = login.split(":")[0]
        self.request("MKCOL", f"{user}/{path}/", login, _MAKE.format(name=name, component=component))

    def events(self, user: str) -> list[str]:
        """What is stored for a user, one iCalendar text for each event."""
        found = sorted((self.folder / "collections" / "collection-root" / user).glob("*/*.ics"))
        return [path.read_text("utf-8").replace("\n ", "") for path in found]


@contextmanager
def radicale(users: dict[str, str]) -> Iterator[Radicale]:
    """Runs a server with these users and passwords, and ends it."""
    try:
        import radicale as _  # noqa: F401
    except ImportError:
        reason = "radicale is not installed (pip install 'capataz[dev]')"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="capataz-radicale-"))
    (folder / "users").write_text("".join(f"{name}:{password}\n" for name, password in users.items()))
    port = free_port()
    (folder / "config").write_text(_CONFIG.format(port=port, folder=folder))
    command = [sys.executable, "-m", "radicale", "--config", str(folder / "config")]
    log = (folder / "log").open("wb")
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    url = f"http://127.0.0.1:{port}/"
    try:
        _wait(process, url, folder / "log")
        yield Radicale(url, folder)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        log.close()
        shutil.rmtree(folder)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url + ".web/", timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            assert process.poll() is None, f"radicale ended: {log.read_text()}"
            assert time.monotonic() < deadline, f"radicale does not answer: {log.read_text()}"
            time.sleep(0.05)
