"""Settings of deliveries: the channels of each user. Secrets are named by their environment variable, never held."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from shared.ids import NAME
from shared.tool_settings import Section

_HTTP = r"^https?://[^\s/]"
_Url = Annotated[str, Field(pattern=_HTTP)]
_ChannelName = Annotated[str, Field(pattern=f"^{NAME.pattern}$", max_length=64)]


class MailChannel(Section):
    """A mail from the user's own account (`[mail.accounts.<user>]`) to `to`; empty: to the account's own address."""

    kind: Literal["mail"]
    to: str = ""


class WebhookChannel(Section):
    """A POST of JSON to `url`, which must be public or in `web.allow_private`.

    `secret_env` names the variable with the key of its signature, the header `X-Capataz-Signature`; without it the
    body is not signed.
    """

    kind: Literal["webhook"]
    url: _Url
    secret_env: str = ""

    @property
    def secret(self) -> str:
        """The variable that it needs, empty for none."""
        return self.secret_env


class _TokenChannel(Section):
    """A service that knows us by a token; `token_env` names the variable that holds it."""

    token_env: str = ""

    @property
    def secret(self) -> str:
        """The variable that it needs, empty for none."""
        return self.token_env


class NtfyChannel(_TokenChannel):
    """A topic of an ntfy server. `token_env` names the variable with an access token, if the topic wants one."""

    kind: Literal["ntfy"]
    topic: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    url: _Url = "https://ntfy.sh"


class TelegramChannel(_TokenChannel):
    """A chat that a Telegram bot may write to; `chat` is its id or `@name`."""

    kind: Literal["telegram"]
    chat: str = Field(pattern=r"^(-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64})$")
    url: _Url = "https://api.telegram.org"
    token_env: str = "TELEGRAM_TOKEN"


class MatrixChannel(_TokenChannel):
    """A room that the user of an access token has joined; `room` is its id, `!…:server`."""

    kind: Literal["matrix"]
    room: str = Field(pattern=r"^![^\s/:]+(:[^\s/]+)?$", max_length=255)  # {1,255} there would take 3 MB
    url: _Url
    token_env: str = "MATRIX_TOKEN"


Channel = MailChannel | WebhookChannel | NtfyChannel | TelegramChannel | MatrixChannel


class UserDelivery(Section):
    """One user's channels by name, and those on which results are delivered if nothing else is said."""

    default: tuple[str, ...] = ()
    channels: dict[_ChannelName, Annotated[Channel, Field(discriminator="kind")]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known(self) -> Self:
        if "session" in self.channels:
            raise ValueError("a channel cannot be called session, which every result goes to")
        if unknown := [one for one in self.default if one != "session" and one not in self.channels]:
            raise ValueError(f"default names {unknown[0]!r}, which is none of the channels")
        return self


class DeliverySettings(Section):
    """Channels by user: the name of a principal, `owner` for the local owner. Who has none here has sessions alone.

    What a service did not take for the moment is tried `attempts` times in all, the pauses between growing from
    `first_s` to `most_s`; then the session is told. `timeout_s` bounds one try.
    """

    users: dict[str, UserDelivery] = Field(default_factory=dict)
    attempts: int = Field(default=8, ge=1, le=50)
    first_s: float = Field(default=30.0, gt=0)
    most_s: float = Field(default=3600.0, gt=0)
    timeout_s: float = Field(default=20.0, gt=0)
