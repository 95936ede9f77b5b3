"""An installation with all that can be configured: a system of real processes, and a local server behind every tool.

Two users, each with a mailbox, a calendar and a place in the bucket; the sites, the TV and the workspace are shared.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote_plus, urlsplit

import redis
from minio import Minio
from sqlalchemy import Connection

from shared.client import Client
from shared.contract import NodeResult
from shared.entries import Assistant, NodeEnded
from shared.names import LOCAL_PRINCIPAL
from shared.settings import DataSettings, Settings
from shared.sql.engine import Database, database_url
from tests.support.dovecot import Dovecot, dovecot
from tests.support.http_stub import Answer, Asked, HttpStub
from tests.support.model_server import ModelServer
from tests.support.processes import System
from tests.support.radicale import Radicale, radicale
from tests.support.s3 import ACCESS_KEY, SECRET_KEY, s3_server
from tests.support.samsung_tv import SamsungTvServer
from tests.support.smtp import Mailroom, smtp_server

T = TypeVar("T")

OWNER, OTHER = LOCAL_PRINCIPAL, "eva"
USERS = (OWNER, OTHER)
PASSWORD = "pass word"
BUCKET = "full-install"
DEVICE = "living-room"
GO = "go on with it"
SEEN = "A red square."
"""What the scripted model says where it has no tools: to look at images, to think."""
SOUND = b"RIFF\0\0\0\0WAVEfmt "
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ARTICLE = (
    "<html><head><title>Municipal pool</title></head><body><article><h1>Hours</h1><p>The pool opens from Monday to"
    " Friday at seven in the morning and closes at nine in the evening, in summer too.</p></article></body></html>"
)
RSS = (
    '<?xml version="1.0"?><rss version="2.0"><channel><title>The paper</title><item><title>Bridge opens</title>'
    "<link>https://example.org/bridge</link></item></channel></rss>"
)
_POST = {
    "title": "A quiet keyboard", "subreddit": "python", "author": "someone", "score": 12, "num_comments": 3,
    "created_utc": 1_794_319_200, "permalink": "/r/python/comments/1/x/", "url": "https://example.org/", "selftext": "",
}  # fmt: skip
_WEATHER = {
    "current": {
        "time": "2026-11-10T15:00", "temperature_2m": 11.5, "apparent_temperature": 9.0, "relative_humidity_2m": 70,
        "precipitation": 0.2, "weather_code": 61, "wind_speed_10m": 14.0,
    },
    "daily": {
        "time": ["2026-11-10"], "weather_code": [61], "temperature_2m_max": [13], "temperature_2m_min": [6],
        "precipitation_sum": [2.0], "precipitation_probability_max": [80],
    },
}  # fmt: skip
_TV_STATUS = {
    "switch": {"switch": {"value": "on"}},
    "audioVolume": {"volume": {"value": 9}},
    "audioMute": {"mute": {"value": "unmuted"}},
    "samsungvd.mediaInputSource": {
        "inputSource": {"value": "dtv"},
        "supportedInputSourcesMap": {"value": [{"id": "dtv", "name": "TV"}, {"id": "HDMI1", "name": "Console"}]},
    },
}


def address(user: str) -> str:
    """A user's mail address."""
    return f"{user}@example.org"


def _pages() -> dict[str, Answer]:
    listing = Answer({"kind": "Listing", "data": {"children": [{"kind": "t3", "data": _POST}]}})
    feed = Answer(RSS, media_type="application/rss+xml")
    hit = {"title": "A lighthouse", "url": "https://example.org/light", "content": "It shines"}
    place = {"name": "Vigo", "country": "Spain", "latitude": 42.2, "longitude": -8.7}
    return {
        "/search": Answer({"results": [hit]}),
        "/places": Answer({"results": [place]}),
        "/forecast": Answer(_WEATHER),
        "/page": Answer(ARTICLE, media_type="text/html; charset=utf-8"),
        "/feed": feed,
        "/news": feed,
        "/news/search": feed,
        "/r/popular/hot.json": listing,
        "/r/python/hot.json": listing,
        "/search.json": listing,
        "/v1/images/generations": Answer({"data": [{"b64_json": base64.b64encode(PNG).decode()}]}),
        "/v1/audio/transcriptions": Answer({"text": "Good morning."}),
        "/v1/audio/speech": Answer(b"ID3 sound", media_type="audio/mpeg"),
        f"/v1/devices/{DEVICE}/status": Answer({"components": {"main": _TV_STATUS}}),
        f"/v1/devices/{DEVICE}/health": Answer({"state": "ONLINE"}),
        f"/v1/devices/{DEVICE}/commands": Answer({"results": [{"id": "1", "status": "ACCEPTED"}]}),
    }


class Sites(HttpStub):
    """Search, places, weather, pages, feeds, reddit, media services and SmartThings, on one port."""

    def __init__(self) -> None:
        pages = _pages()
        super().__init__(lambda asked: pages.get(urlsplit(asked.path).path))

    def got(self, path: str, query: str = "") -> Asked:
        """The newest request for this path whose query holds that text. Fails if there was none."""
        found = [one for one in self.asked if urlsplit(one.path).path == path and query in unquote_plus(one.path)]
        assert found, f"nobody asked for {path} with {query!r}: {[one.path for one in self.asked]}"
        return found[-1]


@dataclass(frozen=True)
class FullInstall:
    """What runs. `s3` looks into the bucket by itself, without the tools."""

    system: System
    model: ModelServer
    imap: Dovecot
    post: Mailroom
    calendars: Radicale
    s3: Minio
    sites: Sites
    tv: SamsungTvServer

    @property
    def workspace(self) -> Path:
        """The workspace of all users."""
        return self.system.workspace

    def client(self, user: str = OWNER) -> Client:
        """A client of this user; close it."""
        return Client.connect(self.system.redis_url, user)

    def turn(self, user: str, session: str, *calls: tuple[str, Mapping[str, Any]]) -> list[NodeResult]:
        """Has the model make these calls in one message of a user, and returns their results, in order."""
        rows = [{"name": name, "arguments": dict(arguments)} for name, arguments in calls]
        self.model.script(
            [
                {"when": {"has_tools": False}, "then": {"text": SEEN}},
                {"when": {"user": f"^{GO}$", "step": 0}, "then": {"calls": rows}},
                {"then": {"text": "done"}},
            ]
        )
        client = self.client(user)
        try:
            reply = client.ask(GO, session=session, timeout=60)
            assert reply.ok, reply
            entries = [stored.value for stored in client.history(session)]
        finally:
            client.close()
        made = [call.id for e in entries if isinstance(e, Assistant) for call in e.message.calls]
        results = {e.node: e.result for e in entries if isinstance(e, NodeEnded)}
        return [results[node] for node in made if node.startswith(f"{reply.run}.")]

    def archive(self, work: Callable[[Connection], T]) -> T:
        """Runs a function on the archive, past the tools."""
        database = Database(database_url(Settings(data=DataSettings(dir=self.system.folder / "data"))))
        try:
            return database.run_sync(work)
        finally:
            database.close()

    def state(self) -> redis.Redis:
        """A client of the state Redis; close it."""
        return self.system.client()

    def deliver(self, user: str, subject: str) -> int:
        """Puts a mail into a user's inbox and returns its uid."""
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "Martha <martha@example.net>", address(user), subject
        mail["Message-ID"] = f"<{re.sub(r'[^a-z]', '-', subject.lower())}@example.net>"
        mail.set_content(f"about {subject}")
        return self.imap.deliver(address(user), PASSWORD, bytes(mail))

    def objects(self, user: str) -> list[str]:
        """The keys of a user's objects, with the prefix."""
        return [str(one.object_name) for one in self.s3.list_objects(BUCKET, f"users/{user}/", recursive=True)]


def _environment(install: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """All settings of all tools, as variables of the processes."""
    sites, s3_url = install["sites"].url, install["s3_url"]
    sections: dict[str, Any] = {
        "principals": [OTHER],
        "mail": {"accounts": {user: _mail(user, install) for user in USERS}, "timeout_s": 10},
        "calendar": {
            "accounts": {
                user: {"url": install["calendars"].url, "user": user, "password_env": "TEST_PASSWORD"} for user in USERS
            }
        },
        "storage": {
            "url": s3_url, "bucket": BUCKET, "prefix": "users", "create_bucket": True,
            "access_key_env": "TEST_S3_ACCESS", "secret_key_env": "TEST_S3_SECRET",
        },
        "web": {
            "allow_private": ["127.0.0.1"], "searxng_url": sites, "weather_url": f"{sites}/forecast",
            "geocoding_url": f"{sites}/places", "news_url": f"{sites}/news",
        },
        "reddit": {"url": sites},
        "media": {
            "base_url": f"{sites}/v1", "api_key_env": "TEST_TOKEN", "image": {"model": "pictures"},
            "transcription": {"model": "ears"}, "speech": {"model": "voice"},
        },
        "tv": {"devices": _tvs(install["tv"].port, folder), "timeout_s": 5, "smartthings_url": f"{sites}/v1",
               "smartthings_token_env": "TEST_TOKEN"},
        "workflows": {"timezone": "Europe/Madrid"},
        "playbook": {"enabled": False},
        "routing": {"encoder": "off"},
    }  # fmt: skip
    secrets = {
        "TEST_PASSWORD": PASSWORD, "TEST_TOKEN": "token", "TEST_S3_ACCESS": ACCESS_KEY, "TEST_S3_SECRET": SECRET_KEY,
    }  # fmt: skip
    return {f"CAPATAZ_{name.upper()}": json.dumps(section) for name, section in sections.items()} | secrets


def _mail(user: str, install: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "address": address(user), "password_env": "TEST_PASSWORD",
        "imap_host": "127.0.0.1", "imap_port": install["imap"].imap_port, "imap_security": "plain",
        "smtp_host": "127.0.0.1", "smtp_port": install["post"].port, "smtp_security": "plain",
    }  # fmt: skip


def _tvs(port: int, folder: Path) -> list[dict[str, Any]]:
    samsung = {
        "name": "Kitchen", "kind": "samsung", "host": "127.0.0.1", "port": port, "upnp_port": port,
        "token_file": str(folder / "tv-token"),
    }  # fmt: skip
    return [samsung, {"name": "Lounge", "kind": "smartthings", "device_id": DEVICE, "users": [OWNER]}]


@contextmanager
def full_install(folder: Path) -> Iterator[FullInstall]:
    """Starts all servers, then the system, and ends them. Skips, or fails in CI, where a server is not installed."""
    with ExitStack() as stack:
        logins = {address(user): PASSWORD for user in USERS}
        parts: dict[str, Any] = {
            "imap": stack.enter_context(dovecot(logins)),
            "calendars": stack.enter_context(radicale(dict.fromkeys(USERS, PASSWORD))),
            "post": stack.enter_context(smtp_server(logins)),
            "sites": stack.enter_context(Sites()),
            "tv": stack.enter_context(SamsungTvServer()),
            "model": stack.enter_context(ModelServer(rules=[{"then": {"text": "hello"}}])),
            "s3_url": stack.enter_context(s3_server()),
        }
        for user in USERS:
            parts["calendars"].make_calendar(f"{user}:{PASSWORD}", "home", "Home")
        workspace = folder / "workspace"
        workspace.mkdir()
        env = _environment(parts, folder)
        s3_url = parts.pop("s3_url")
        s3 = Minio(s3_url.removeprefix("http://"), ACCESS_KEY, SECRET_KEY, secure=False, region="us-east-1")
        system = stack.enter_context(System(model_url=parts["model"].url, workspace=workspace, env=env))
        yield FullInstall(system=system, s3=s3, **parts)
