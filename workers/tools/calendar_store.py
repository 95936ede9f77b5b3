"""A user's calendars on a CalDAV server, blocking. Writes are conditional, so that nobody's change is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shared.compress import snippet
from shared.errors import ModelError
from shared.tool_settings import CalendarAccount

if TYPE_CHECKING:
    from caldav.davclient import DAVClient

_HEADERS = {"Content-Type": "text/calendar; charset=utf-8"}


@dataclass(frozen=True)
class Entry:
    """A stored event with its exceptions. `etag` is empty if the server tells none."""

    url: str
    calendar: str
    data: bytes = field(repr=False)
    etag: str = ""


@contextlib.contextmanager
def opened(account: CalendarAccount, password: str, seconds: float) -> Iterator[Store]:
    """The calendars of an account. `seconds` bounds each request. What libraries raise becomes a ModelError."""
    from caldav.davclient import DAVClient

    with _mapped(account):
        verify = str(account.ca_file) if account.ca_file else True
        client = DAVClient(
            url=account.url,
            username=account.user or None,
            password=password or None,
            timeout=seconds,  # type: ignore[arg-type]  # it goes to the HTTP library as it is
            ssl_verify_cert=verify,
            enable_rfc6764=False,
        )
        with client:
            yield Store(client)


@contextlib.contextmanager
def _mapped(account: CalendarAccount) -> Iterator[None]:
    from caldav.lib import error as dav
    from lxml import etree  # type: ignore[import-untyped]

    try:
        yield
    except dav.AuthorizationError as error:
        raise ModelError(
            f"the calendar server refused the login of {account.user or 'nobody'}, or access to this calendar",
            hint="tell the user: the operator checks user and password of the calendar account",
            code="auth_refused",
        ) from error
    except dav.RateLimitError as error:
        raise ModelError(
            "the calendar server wants fewer requests", hint="try again later", code="rate_limited"
        ) from error
    except OSError as error:  # what the HTTP library raises is one too
        if "Timeout" in type(error).__name__:
            raise ModelError(
                "the calendar server did not answer in time; if this was a change, it may have been made",
                hint="look with calendar_upcoming before trying again",
                code="timed_out",
            ) from error
        raise ModelError(
            f"the calendar server {account.url} cannot be reached",
            hint="tell the user; try again later",
            code="unreachable",
        ) from error
    except (dav.DAVError, etree.XMLSyntaxError, AssertionError, ValueError, KeyError, AttributeError) as error:
        # The library takes answers apart without looking, and stumbles in many ways over what is no CalDAV.
        raise ModelError(
            f"the calendar server {account.url} answered what no calendar server may: {snippet(str(error), 200)}",
            hint="tell the user; the operator checks the url of the calendar account",
            code="bad_response",
        ) from error


class Store:
    """The calendars of one account that hold events."""

    def __init__(self, client: DAVClient) -> None:
        self._client = client
        # The library is written for both kinds of client, and types every answer as either.
        found: list[Any] = client.get_calendars()
        self._calendars = sorted((one for one in found if "VEVENT" in one.get_supported_components()), key=_name)
        if not self._calendars:
            raise ModelError(
                "the calendar server shows no calendar of this account",
                hint="tell the user: the operator checks the url of the calendar account",
                code="not_found",
            )

    def names(self) -> list[str]:
        """The calendars' names, in order."""
        return [_name(one) for one in self._calendars]

    def _calendar(self, wanted: str) -> Any:
        for one in self._calendars:
            if not wanted or _name(one).casefold() == wanted.casefold():
                return one
        raise ModelError(
            f"there is no calendar {wanted!r}; nothing was changed",
            hint=f"calendars: {', '.join(self.names())}",
            code="not_found",
        )

    def between(self, start: datetime, end: datetime) -> list[tuple[str, bytes]]:
        """(calendar, iCalendar text) of all events that may happen between two instants; series are whole."""
        found: list[tuple[str, bytes]] = []
        for one in self._calendars:
            raw = one.search(event=True, start=start, end=end, expand=False, post_filter=False, split_expanded=False)
            found.extend((_name(one), _bytes(event.data)) for event in raw)
        return found

    def find(self, uid: str) -> Entry | None:
        """The event with this uid, in whichever calendar; None if there is none."""
        for one in self._calendars:
            # Servers search for a part of the text; the library compares the whole.
            for event in one.search(event=True, uid=uid, post_filter=True, split_expanded=False):
                if event.id == uid and (entry := self._load(str(event.url), _name(one))) is not None:
                    return entry
        return None

    def _load(self, url: str, calendar: str) -> Entry | None:
        answer = self._client.request(url, "GET")
        if answer.status in (404, 410):
            return None
        _expect(answer, "reading the event", 200)
        return Entry(url, calendar, _bytes(answer.raw), str(answer.headers.get("ETag") or ""))

    def create(self, calendar: str, uid: str, data: bytes) -> tuple[Entry, bool]:
        """Stores a new event at an address made of its uid; one that is there already is returned, with False."""
        chosen = self._calendar(calendar)
        url = f"{str(chosen.url).rstrip('/')}/{uid}.ics"
        answer = self._client.put(url, data.decode(), {**_HEADERS, "If-None-Match": "*"})
        if answer.status == 412 and (present := self._load(url, _name(chosen))) is not None:
            return present, False
        _expect(answer, "adding the event", 200, 201, 204)
        return Entry(url, _name(chosen), data), True

    def replace(self, entry: Entry, data: bytes) -> bool:
        """Stores an event in place of what was read; False if somebody changed or removed it meanwhile."""
        answer = self._client.put(entry.url, data.decode(), {**_HEADERS, **_unchanged(entry)})
        if answer.status in (404, 409, 412):
            return False
        _expect(answer, "changing the event", 200, 201, 204)
        return True

    def remove(self, entry: Entry) -> bool:
        """Deletes what was read; False if somebody changed it meanwhile. One that is gone is deleted."""
        answer = self._client.delete(entry.url, _unchanged(entry))
        if answer.status == 412:
            return False
        if answer.status not in (404, 410):
            _expect(answer, "deleting the event", 200, 202, 204)
        return True


def _name(calendar: Any) -> str:
    return str(calendar.get_display_name() or calendar.id or calendar.url)


def _bytes(data: Any) -> bytes:
    return data if isinstance(data, bytes) else str(data).encode()


def _unchanged(entry: Entry) -> dict[str, str]:
    return {"If-Match": entry.etag} if entry.etag and not entry.etag.startswith("W/") else {}


def _expect(answer: Any, doing: str, *statuses: int) -> None:
    if answer.status not in statuses:
        raise ModelError(
            f"the calendar server refused {doing}, with status {answer.status}",
            hint="try again later" if answer.status >= 500 else "this calendar may be read-only; tell the user",
            code="refused",
        )
