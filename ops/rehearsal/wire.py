"""What the server needs of a dialect. Both dialects of the package implement it, purely."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from ops.rehearsal.engine import Reply
from ops.rehearsal.playback import Delta
from ops.rehearsal.request import Request
from shared.errors import UserError

_M = TypeVar("_M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply on its way out. `id` is unique among answers (hex), `created` in Unix seconds."""

    reply: Reply
    id: str
    created: int
    include_usage: bool = True


class Stream(Protocol):
    """Writes one answer as server-sent events; each method returns the bytes to send next."""

    def begin(self) -> bytes:
        """What comes before the first delta."""
        ...

    def delta(self, delta: Delta) -> bytes:
        """One piece of the answer."""
        ...

    def end(self) -> bytes:
        """What comes after the last delta of an answer that was not cut."""
        ...

    def fault(self, body: Any) -> bytes:
        """An error inside the stream; `body` is the error object."""
        ...


class Wire(Protocol):
    """One dialect."""

    def parse(self, body: Any, chars: int) -> Request:
        """The request in a JSON body of `chars` characters. Raises UserError for what a provider would refuse."""
        ...

    def stream(self, answer: Answer) -> Stream:
        """A writer for a streamed answer."""
        ...

    def whole(self, answer: Answer) -> dict[str, Any]:
        """The JSON object of an answer that is not streamed."""
        ...

    def error(self, status: int, message: str) -> dict[str, Any]:
        """The dialect's error object for an HTTP status."""
        ...


def encode(value: Any) -> bytes:
    """Compact JSON in UTF-8, as providers send it; lone surrogates, which UTF-8 lacks, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def validated(model: type[_M], body: Any) -> _M:
    """`body` as `model`. Raises UserError naming the first field that is wrong."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{place or 'body'}: {first['msg']}") from error
