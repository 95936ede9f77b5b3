"""A sans-I/O parser of server-sent events (WHATWG HTML, §9.2.6) on bytes.

It splits lines on bytes, so that a character cut between two reads is never decoded in halves, and it is
lenient where servers of model streams are loose: see `SseParser`.
"""

from __future__ import annotations

from typing import NamedTuple

from shared.llm.errors import ServerFault

MAX_EVENT_BYTES = 8 * 1024 * 1024


class SseEvent(NamedTuple):
    """One event. `whole` is False if the stream ended before the blank line that ends an event."""

    event: str
    data: str
    whole: bool = True


class SseParser:
    """Bytes in, events out; the result does not depend on how the bytes are split.

    Lines end in LF, CRLF or CR. Comments, `id`, `retry` and events without data yield nothing. Beyond the
    standard: a line that starts with `{` is taken as data (servers write errors that way), and what stands at
    the end of the stream without a blank line is given out by `close`. More than `max_bytes` in one event is a
    ServerFault, so that a broken server cannot fill the memory.
    """

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_bytes
        self._tail: list[bytes] = []  # pieces of a line whose end has not come
        self._size = 0  # bytes held: tail and data together
        self._data: list[bytes] = []
        self._event = b""
        self._skip_lf = False  # the last read ended in CR: an LF that follows belongs to it
        self._at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes. Raises ServerFault if one grows over the limit."""
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if (
            chunk[:6] == b"data: "  # what nearly every read of a stream is: one whole event of one line
            and chunk.find(b"\n") == len(chunk) - 2
            and chunk[-1:] == b"\n"
            and not (self._tail or self._data or self._event or self._at_start)
            and b"\r" not in chunk
            and len(chunk) <= self._max
        ):
            return [SseEvent("", text)] if (text := chunk[6:-2].decode("utf-8", "replace")).strip() else []
        events: list[SseEvent] = []
        for line in chunk.splitlines(keepends=True):  # on bytes: exactly LF, CRLF and CR
            if line[-1] not in b"\r\n":
                self._skip_lf = False
                self._hold(line)
                self._tail.append(line)
                continue
            self._skip_lf = line[-1:] == b"\r"
            line = line.rstrip(b"\r\n")
            if self._tail:
                self._tail.append(line)
                line = b"".join(self._tail)
                self._size -= sum(map(len, self._tail[:-1]))
                self._tail.clear()
            self._line(line, events)
        return events

    def close(self) -> list[SseEvent]:
        """What the end of the stream leaves: an event whose blank line never came, marked as not whole."""
        events: list[SseEvent] = []
        if self._tail:
            self._line(b"".join(self._tail), events)
            self._tail.clear()
        self._dispatch(events, whole=False)
        return events

    def _hold(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._max:
            raise ServerFault(
                f"the server sent an event of more than {self._max} bytes",
                code="event_too_large",
                hint="is base_url the address of a model API?",
            )

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._dispatch(events, whole=True)
            return
        if line[0] == 0x7B:  # "{"
            field, value = b"data", line
        else:
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
        if field == b"data":
            self._hold(value)
            self._data.append(value)
        elif field == b"event":
            self._hold(value)
            self._event = value

    def _dispatch(self, events: list[SseEvent], *, whole: bool) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            if data.strip():
                events.append(SseEvent(self._event.decode("utf-8", "replace"), data.decode("utf-8", "replace"), whole))
            self._data = []
        self._event = b""
        self._size = 0
