"""What can be seen of a full installation past its tools: what they have stored, sent, asked for and switched."""

from __future__ import annotations

from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import default
from typing import Any

from shared.entries import UserMessage
from shared.sql import gym, notes, reminders, schedules
from shared.state import keys
from tests.support.full_install import BUCKET, OWNER, PASSWORD, FullInstall, address

SESSION = "all-tools"
WRONG = "wrong"
"""The session in which calls shall have no effect."""


@dataclass
class World:
    """The installation, and what calls have returned so far, by tool."""

    install: FullInstall
    uid: int = 0
    values: dict[str, Any] = field(default_factory=dict)

    def asked(self, path: str, query: str = "") -> Any:
        """The request that a tool made at one of the sites."""
        return self.install.sites.got(path, query)

    def text(self, path: str) -> str:
        """A file of the workspace."""
        return (self.install.workspace / path).read_text("utf-8")

    def notes(self) -> dict[str, str]:
        """What the archive has of the user's notes: text by id."""
        found = self.install.archive(lambda conn: notes.list_notes(conn, OWNER))
        return {one.id: one.text for one in found}

    def reminders(self) -> dict[str, str]:
        """The same for reminders."""
        found = self.install.archive(lambda conn: reminders.list_reminders(conn, OWNER))
        return {one.id: one.text for one in found}

    def schedules(self) -> dict[str, str]:
        """The same for schedules: names by id."""
        return {one.id: one.name for one in self.install.archive(lambda conn: schedules.list_schedules(conn, OWNER))}

    def said(self, text: str) -> bool:
        """Whether somebody has said this in the conversation."""
        client = self.install.client()
        try:
            return any(isinstance(e.value, UserMessage) and e.value.text == text for e in client.history(SESSION))
        finally:
            client.close()

    def gym(self) -> dict[str, Any]:
        """The same for training: sets by id."""
        return {one.id: one.sets for one in self.install.archive(lambda conn: gym.history(conn, OWNER))}

    def events(self) -> str:
        """All that the calendar server has of the user."""
        return "\n".join(self.install.calendars.events(OWNER))

    def mails(self, folder: str) -> list[str]:
        """The subjects in a folder of the mailbox."""
        raw = self.install.imap.messages(address(OWNER), PASSWORD, folder)
        return [str(message_from_bytes(one, policy=default)["subject"]) for one in raw]

    def sent(self, subject: str) -> Any:
        """A mail as the SMTP server got it."""
        found = [one for one in self.install.post.received if f"Subject: {subject}".encode() in one.data]
        assert found, f"no mail {subject} was sent"
        return found[-1]

    def kept(self, key: str) -> bytes:
        """An object of the user's as the S3 server has it."""
        response = self.install.s3.get_object(BUCKET, f"users/{OWNER}/{key}")
        try:
            return response.read()
        finally:
            response.close()

    def commands(self) -> list[tuple[str, str, list[Any]]]:
        """What SmartThings was told."""
        posts = [one.json() for one in self.install.sites.asked if one.path.endswith("/commands")]
        return [(c["capability"], c["command"], c["arguments"]) for post in posts for c in post["commands"]]

    def in_state(self, key: str, name: str = "") -> str:
        """A key of the state Redis as text."""
        with self.install.state() as client:
            found: Any = client.hget(key, name) if name else client.get(key)
        return str(found)

    def everything(self) -> dict[str, Any]:
        """All that calls could have changed, or asked somebody for."""
        install = self.install
        files = sorted(one for one in install.workspace.rglob("*") if one.is_file())
        with install.state() as client:
            state = {key: client.exists(key) for key in (keys.todo(WRONG), keys.facts(WRONG))}
        return {
            "archive": [self.notes(), self.reminders(), self.gym(), self.schedules()],
            "routines": install.archive(lambda conn: gym.routines(conn, OWNER)),
            "mail": [install.imap.messages(address(OWNER), PASSWORD, folder) for folder in ("INBOX", "Enviados")],
            "flags": install.imap.flags(address(OWNER), PASSWORD, self.uid),
            "sent": len(install.post.received),
            "events": self.events(),
            "objects": install.objects(OWNER) if install.s3.bucket_exists(BUCKET) else [],
            "files": {str(one): one.read_bytes() for one in files},
            "tv": (list(install.tv.keys), install.tv.volume, install.tv.power),
            "asked": len(install.sites.asked),
            "state": state,
        }
