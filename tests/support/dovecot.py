"""A real IMAP server for tests: Dovecot as whoever runs the tests, in a folder of its own, on free ports."""

from __future__ import annotations

import grp
import imaplib
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
mail_uid = {uid}
mail_gid = {gid}
first_valid_uid = 0
first_valid_gid = 0
log_path = {folder}/log
protocols = imap
listen = 127.0.0.1
ssl = {ssl}
{certificate}
disable_plaintext_auth = no
auth_mechanisms = plain login{mechanisms}
mail_location = maildir:{folder}/mail/%u:LAYOUT=fs
mail_max_userip_connections = 50

passdb {{
  driver = passwd-file
  args = scheme=plain username_format=%u {folder}/users
}}
{token_passdb}
userdb {{
  driver = static
  args = uid={uid} gid={gid} home={folder}/home/%u
}}
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Archive {{
    special_use = \\Archive
    auto = create
  }}
  mailbox Enviados {{
    special_use = \\Sent
    auto = create
  }}
  mailbox Papelera {{
    special_use = \\Trash
    auto = create
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap_port}
  }}
  inet_listener imaps {{
    port = {imaps_port}
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""

_TOKENS = """
passdb {{
  driver = oauth2
  mechanisms = xoauth2
  args = {folder}/oauth2
}}
"""
_INTROSPECTION = """
introspection_url = {url}
introspection_mode = post
username_attribute = email
active_attribute = active
active_value = true
"""


@dataclass
class Dovecot:
    """A server that runs. `imaps_port` answers only when it was started with a certificate."""

    folder: Path
    imap_port: int
    imaps_port: int
    process: subprocess.Popen[bytes]

    def client(self, user: str, password: str) -> imaplib.IMAP4:
        """A connection of the standard library, logged in, to look with at what the tools did."""
        client = imaplib.IMAP4("127.0.0.1", self.imap_port, timeout=20)
        client.authenticate("PLAIN", lambda _: f"\0{user}\0{password}".encode())
        return client

    def deliver(self, user: str, password: str, raw: bytes, folder: str = "INBOX", flags: str = "") -> int:
        """Puts a mail into a folder and returns its uid."""
        client = self.client(user, password)
        try:
            status, data = client.append(folder, flags or None, None, raw)
            assert status == "OK", data
            found = re.search(rb"APPENDUID \d+ (\d+)", data[0])
            assert found is not None, data
            return int(found[1])
        finally:
            client.logout()

    def flags(self, user: str, password: str, uid: int, folder: str = "INBOX") -> str | None:
        """The flags of a mail as the server tells them; None if the folder has no such mail."""
        client = self.client(user, password)
        try:
            client.select(folder, readonly=True)
            _, data = client.uid("FETCH", str(uid), "(FLAGS)")
            return data[0].decode() if data and data[0] else None
        finally:
            client.logout()

    def messages(self, user: str, password: str, folder: str = "INBOX") -> list[bytes]:
        """The whole of each mail of a folder."""
        client = self.client(user, password)
        try:
            client.select(folder, readonly=True)
            _, data = client.uid("FETCH", "1:*", "(BODY.PEEK[])")
            return [bytes(item[1]) for item in data if isinstance(item, tuple)]
        finally:
            client.logout()


def binary() -> str:
    """Where Dovecot is. Without it the test is skipped, but fails in CI."""
    found = shutil.which("dovecot") or shutil.which("dovecot", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        reason = "no dovecot is installed (package dovecot-imapd)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def free_port() -> int:
    """A port that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost that vouches for itself, and its key."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    command = [*shlex.split(make), "-addext", names]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True, timeout=60)
    return cert, key


def _unprivileged() -> pwd.struct_passwd:
    """Whoever runs the tests, or nobody in place of root: its login process refuses to run as root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


@contextmanager
def dovecot(
    users: dict[str, str], *, tls: tuple[Path, Path] | None = None, introspection: str = ""
) -> Iterator[Dovecot]:
    """Runs a server with these users and passwords, and ends it.

    With `introspection` it also takes access tokens (XOAUTH2), about which it asks at that address (RFC 7662).
    """
    program = binary()
    folder = Path(tempfile.mkdtemp(prefix="capataz-dc-"))  # its sockets' paths must be short
    for name in ("run", "state", "mail", "home"):
        (folder / name).mkdir()
    (folder / "users").write_text("".join(f"{name}:{{PLAIN}}{password}\n" for name, password in users.items()))
    account = _unprivileged()
    uid, gid = account.pw_uid, account.pw_gid
    tls = tls and (Path(shutil.copy(tls[0], folder)), Path(shutil.copy(tls[1], folder)))
    imap_port, imaps_port = free_port(), free_port()
    (folder / "oauth2").write_text(_INTROSPECTION.format(url=introspection))
    config = folder / "dovecot.conf"
    config.write_text(
        _CONFIG.format(
            folder=folder, user=account.pw_name, group=grp.getgrgid(gid).gr_name, uid=uid, gid=gid,
            imap_port=imap_port, imaps_port=imaps_port if tls else 0,
            ssl="yes" if tls else "no", mechanisms=" xoauth2" if introspection else "",
            token_passdb=_TOKENS.format(folder=folder) if introspection else "",
            certificate=f"ssl_cert = <{tls[0]}\nssl_key = <{tls[1]}" if tls else "",
        )
    )  # fmt: skip
    options: dict[str, Any] = {}
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, uid, gid)
        options = {"user": uid, "group": gid, "extra_groups": []}
    process = subprocess.Popen(
        [program, "-F", "-c", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", **options
    )
    try:
        _wait(process, imap_port, folder)
        yield Dovecot(folder, imap_port, imaps_port, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                if connection.recv(4) == b"* OK":
                    return
        except OSError:
            pass
        log = folder / "log"
        assert process.poll() is None, f"dovecot ended: {process.stderr.read() if process.stderr else ''!r}"
        assert time.monotonic() < deadline, f"dovecot does not answer: {log.read_text() if log.exists() else 'no log'}"
        time.sleep(0.05)
