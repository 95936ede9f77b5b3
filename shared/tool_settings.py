"""Settings of the tool groups: one section each, all of them fields of `shared.settings.Settings`.

A secret is named, never held: `…_env` is the environment variable that a worker reads it from.
"""

from __future__ import annotations

from decimal import Decimal
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_HTTP = r"^https?://[^\s/]"


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class StorageSettings(Section):
    """An S3 server for the storage tools, off while `url` is empty. Each user's objects lie below `prefix` and name.

    `url` is the server's address without the bucket; `public_url`, if set, is the one that shared links name.
    `create_bucket` makes the bucket, private as S3 makes it, when it is missing. Sizes in bytes, times in seconds.
    """

    url: Annotated[str, Field(pattern=rf"^$|{_HTTP}")] = ""
    public_url: Annotated[str, Field(pattern=rf"^$|{_HTTP}")] = ""
    bucket: str = Field(default="capataz", pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")
    prefix: str = ""
    region: str = "us-east-1"
    access_key_env: str = "AWS_ACCESS_KEY_ID"
    secret_key_env: str = "AWS_SECRET_ACCESS_KEY"
    create_bucket: bool = False
    max_bytes: int = Field(default=20_000_000, ge=1)
    max_share_s: int = Field(default=86_400, ge=60, le=7 * 86_400)
    timeout_s: float = Field(default=20.0, gt=0)


class MediaService(Section):
    """One service of the media tools, off while `model` is empty. Empty `base_url` and `api_key_env`: those above."""

    model: str = ""
    base_url: Annotated[str, Field(pattern=rf"^$|{_HTTP}")] = ""
    api_key_env: str = ""


class ImageService(MediaService):
    """Making pictures. `price_per_image` in dollars; without it nobody knows what they cost, which is not zero."""

    price_per_image: Decimal | None = Field(default=None, ge=0)


class TranscriptionService(MediaService):
    """Speech to text. `price_per_minute` of the recording, in dollars."""

    price_per_minute: Decimal | None = Field(default=None, ge=0)


class SpeechService(MediaService):
    """Text to speech: with which voice, if the user names none. The price is in dollars."""

    voice: str = "alloy"
    price_per_million_characters: Decimal | None = Field(default=None, ge=0)


class MediaSettings(Section):
    """OpenAI-compatible endpoints for pictures and sound. `base_url` is with `/v1`; no `api_key_env`: no key."""

    base_url: Annotated[str, Field(pattern=rf"^$|{_HTTP}")] = ""
    api_key_env: str = ""
    image: ImageService = ImageService()
    transcription: TranscriptionService = TranscriptionService()
    speech: SpeechService = SpeechService()
    max_bytes: int = Field(default=20_000_000, ge=1)
    """The largest picture or sound, sent or received."""
    timeout_s: float = Field(default=120.0, gt=0)


class TvDevice(Section):
    """One TV. `users` may use it, everybody if empty.

    `samsung` is reached in the local network: `host`, where the TV's own token is kept (`token_file`), and `mac` for
    switching it on. `smartthings` is reached over Samsung's cloud, by `device_id`.
    """

    name: str = Field(min_length=1, max_length=64)
    kind: Literal["samsung", "smartthings"]
    host: str = ""
    port: int = Field(default=8002, ge=1, le=65535)
    upnp_port: int = Field(default=9197, ge=1, le=65535)
    token_file: Path | None = None
    mac: Annotated[str, Field(pattern=r"^$|^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$")] = ""
    device_id: str = ""
    users: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        needed = "host" if self.kind == "samsung" else "device_id"
        if not getattr(self, needed):
            raise ValueError(f"a TV of kind {self.kind} needs {needed}")
        return self


class TvSettings(Section):
    """The TVs. `smartthings_token_env` names the variable with the access token; `wake_address` is where the packets
    go that switch TVs of the local network on."""

    devices: tuple[TvDevice, ...] = ()
    smartthings_url: Annotated[str, Field(pattern=_HTTP)] = "https://api.smartthings.com/v1"
    smartthings_token_env: str = "SMARTTHINGS_TOKEN"
    wake_address: str = "255.255.255.255"
    wake_port: int = Field(default=9, ge=1, le=65535)
    timeout_s: float = Field(default=8.0, gt=0)

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [device.name.casefold() for device in self.devices]
        if len(set(names)) != len(names):
            raise ValueError("two TVs have the same name")
        return self


class AttachmentSettings(Section):
    """Documents that come with a message: how much of each is read, and how much of that the model is shown at once.

    `pdf_seconds` bounds one PDF; `shown_chars` all documents of a message together.
    """

    pdf_pages: int = Field(default=300, ge=1)
    pdf_seconds: float = Field(default=20.0, gt=0)
    text_chars: int = Field(default=2_000_000, ge=1_000)
    shown_chars: int = Field(default=8_000, ge=500, le=40_000)


_TOKEN_URLS = {
    "google": "https://oauth2.googleapis.com/token",
    "microsoft": "https://login.microsoftonline.com/common/oauth2/v2.0/token",
}
_SCOPES = {
    "microsoft": "https://outlook.office.com/IMAP.AccessAsUser.All https://outlook.office.com/SMTP.Send offline_access"
}


class MailOAuth(Section):
    """How an account gets access tokens (OAuth 2.0) instead of a password.

    `provider` knows the address and the scope to ask for, unless `token_url` and `scope` say others. `client_id` is the
    registered application's; `client_secret_env` names the variable with its secret, empty for one without.
    `refresh_token_env` names the variable with the refresh token that the user's consent gave. `token_file` is where a
    newer one is kept, for providers that replace it; it then wins over the variable.
    """

    provider: Literal["google", "microsoft", "other"] = "other"
    client_id: str = Field(min_length=1)
    client_secret_env: str = ""
    refresh_token_env: str = "MAIL_REFRESH_TOKEN"
    token_url: Annotated[str, Field(pattern=r"^$|^https://[^\s/]|^http://(127\.0\.0\.1|localhost)[:/]")] = ""
    scope: str = ""
    token_file: Path | None = None

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if not self.endpoint:
            raise ValueError("without a provider, token_url is needed: where access tokens are asked for")
        return self

    @property
    def endpoint(self) -> str:
        """Where access tokens are asked for."""
        return self.token_url or _TOKEN_URLS.get(self.provider, "")

    @property
    def asked_scope(self) -> str:
        """The scope to ask for; empty: that of the consent."""
        return self.scope or _SCOPES.get(self.provider, "")


class MailAccount(Section):
    """One user's mailbox. `password_env` names the variable with the password; an empty `user` is the address.

    With `oauth` there is no password: servers are shown access tokens (XOAUTH2).

    Ports that are 0 are the usual ones of the security chosen. Without `smtp_host` nothing can be sent; `smtp_auth` off
    is for a relay that wants no login. `ca_file` (PEM) is what the certificates are checked against instead of the
    system's. `save_sent` puts a copy of what was sent into the folder for it; some services do that by themselves.
    """

    address: Annotated[str, Field(pattern=r"^[^@\s<>,;]+@[^@\s<>,;]+$")]
    name: str = ""
    user: str = ""
    password_env: str = "MAIL_PASSWORD"
    imap_host: str = Field(min_length=1)
    imap_port: int = Field(default=0, ge=0, le=65535)
    imap_security: Literal["ssl", "starttls", "plain"] = "ssl"
    smtp_host: str = ""
    smtp_port: int = Field(default=0, ge=0, le=65535)
    smtp_security: Literal["ssl", "starttls", "plain"] = "ssl"
    smtp_auth: bool = True
    ca_file: Path | None = None
    save_sent: bool = True
    oauth: MailOAuth | None = None

    @property
    def secret_envs(self) -> tuple[str, ...]:
        """The variables that must be set for it."""
        if self.oauth is None:
            return (self.password_env,) if self.password_env else ()
        kept = self.oauth.token_file is not None and self.oauth.token_file.is_file()
        names = (self.oauth.client_secret_env, "" if kept else self.oauth.refresh_token_env)
        return tuple(name for name in names if name)


class MailSettings(Section):
    """Mailboxes by user: the name of a principal, `owner` for the local owner. Who has none here has no mail.

    Of a mail only the first `max_bytes` are fetched; `max_send_bytes` bounds what is sent, encoded.
    """

    accounts: dict[str, MailAccount] = Field(default_factory=dict)
    timeout_s: float = Field(default=20.0, gt=0)
    max_bytes: int = Field(default=25_000_000, ge=10_000)
    max_send_bytes: int = Field(default=20_000_000, ge=10_000)


class CalendarAccount(Section):
    """One user's calendars on a CalDAV server. `url` is the server's address, or the user's on it.

    `calendar` is the name of the one that new events go to; empty: the first by name. Without a `timezone` it
    is `workflows.timezone`.
    """

    url: Annotated[str, Field(pattern=_HTTP)]
    user: str = ""
    password_env: str = "CALDAV_PASSWORD"
    calendar: str = ""
    timezone: str = ""
    ca_file: Path | None = None

    @property
    def secret_envs(self) -> tuple[str, ...]:
        """The variables that must be set for it."""
        return (self.password_env,) if self.password_env else ()


class CalendarSettings(Section):
    """CalDAV accounts by user: the name of a principal, `owner` for the local owner. Who has none has no calendar."""

    accounts: dict[str, CalendarAccount] = Field(default_factory=dict)
    timeout_s: float = Field(default=20.0, gt=0)


class ShellSettings(Section):
    """Which commands `shell_run` takes, and in what bounds. Rules are words; see `workers.tools.shell_rules`.

    `deny` wins over `allow`; without `allow` there is no such tool. Programs are looked for in the folders of `path`
    and nowhere else. `sandbox` is bubblewrap: `auto` uses it where it works, `on` refuses to work without it. `network`
    lets commands reach the network, which only the sandbox can prevent. Sizes in bytes, `processes` at once.
    """

    allow: tuple[str, ...] = (
        "ls", "cat", "head", "tail", "wc", "grep", "find", "sort", "uniq", "cut", "tr", "nl", "comm", "cmp", "diff",
        "stat", "du", "tree", "echo", "pwd", "date", "basename", "dirname", "md5sum", "sha256sum",
        "git status", "git log", "git diff", "git show", "git blame", "git ls-files",
    )  # fmt: skip
    deny: tuple[str, ...] = ()
    path: tuple[Path, ...] = (Path("/usr/local/bin"), Path("/usr/bin"), Path("/bin"))
    sandbox: Literal["auto", "on", "off"] = "auto"
    network: bool = False
    timeout_s: float = Field(default=60.0, gt=0, le=600)
    output_bytes: int = Field(default=200_000, ge=1_000)
    memory_bytes: int = Field(default=1_000_000_000, ge=16_000_000)
    file_bytes: int = Field(default=100_000_000, ge=0)
    processes: int = Field(default=64, ge=1)


class WebSettings(Section):
    """The web tools: what may be reached, and which services are asked.

    `allow_private` has hosts that may have private addresses, and networks (CIDR) whose addresses may be connected to.
    `search` is who answers web_search; `auto` is SearXNG if it has a URL, Brave if its key is set, else DuckDuckGo.
    `news_url` is a feed of headlines that takes Google News' parameters.
    """

    allow_private: tuple[str, ...] = ()
    ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = (80, 443, 8080, 8443)
    """Ports that may be connected to; those of `allow_private` may be any."""
    max_bytes: int = Field(default=5_000_000, ge=1)
    timeout_s: float = Field(default=20.0, gt=0)
    search: Literal["auto", "searxng", "brave", "duckduckgo", "off"] = "auto"
    searxng_url: Annotated[str, Field(pattern=rf"^$|{_HTTP}")] = ""
    brave_url: Annotated[str, Field(pattern=_HTTP)] = "https://api.search.brave.com/res/v1/web/search"
    brave_key_env: str = "BRAVE_API_KEY"
    duckduckgo_url: Annotated[str, Field(pattern=_HTTP)] = "https://html.duckduckgo.com/html/"
    weather_url: Annotated[str, Field(pattern=_HTTP)] = "https://api.open-meteo.com/v1/forecast"
    geocoding_url: Annotated[str, Field(pattern=_HTTP)] = "https://geocoding-api.open-meteo.com/v1/search"
    news_url: Annotated[str, Field(pattern=_HTTP)] = "https://news.google.com/rss"

    @field_validator("allow_private")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            if "/" in entry:
                ip_network(entry)  # raises ValueError that says what is wrong with it
        return value


class RedditSettings(Section):
    """The reddit tools, which read public pages as JSON; empty `url`: there are none."""

    url: Annotated[str, Field(pattern=rf"^$|{_HTTP}")] = "https://www.reddit.com"
    user_agent: str = "linux:capataz:v1 (agent tools)"
    timeout_s: float = Field(default=15.0, gt=0)
