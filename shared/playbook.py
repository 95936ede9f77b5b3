"""The learned playbook: short rules ("bullets") that change by small operations, never as a whole. Pure.

`merge` applies operations and keeps the number of active bullets bounded; `revert` undoes one change of the
past. Both return the changes they made, each with the bullets before and after, which is what a ledger keeps.
Bullets are never destroyed: they retire. What the user took away stays as a sign that nothing like it is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from shared.contract import Value
from shared.errors import StateConflict
from shared.ids import sortable_id

TEXT_MAX: Final = 500
"""Characters of a bullet's text, and of its `when_to_use`: bullets go into prompts whole."""


class ScopeKind(StrEnum):
    """Whom a playbook is for."""

    USER = "user"
    AGENT = "agent"
    GLOBAL = "global"


class Scope(Value):
    """One playbook: all bullets of a user, of an agent as one user has it, or of the installation."""

    kind: ScopeKind
    key: str = ""

    @classmethod
    def user(cls, principal: str) -> Scope:
        """The user's own."""
        return cls(kind=ScopeKind.USER, key=principal)

    @classmethod
    def agent(cls, principal: str, agent: str) -> Scope:
        """The agent's, learned with this user and shown to no other (`/` cannot occur in a principal)."""
        return cls(kind=ScopeKind.AGENT, key=f"{principal}/{agent}")

    @classmethod
    def everyone(cls) -> Scope:
        """The installation's, which every user's model sees."""
        return cls(kind=ScopeKind.GLOBAL)

    def is_of(self, principal: str) -> bool:
        """True for a playbook of that user's own."""
        of_agent = self.kind is ScopeKind.AGENT and self.key.startswith(f"{principal}/")
        return of_agent or (self.kind is ScopeKind.USER and self.key == principal)


class Importance(StrEnum):
    """How much a bullet matters."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class BulletState(StrEnum):
    """Active bullets are shown to models; retired ones are kept for the record and for rollback. Forgotten ones are
    those that the user took away: nothing that says the same is learned again."""

    ACTIVE = "active"
    RETIRED = "retired"
    FORGOTTEN = "forgotten"


class Bullet(Value):
    """One rule. `helpful` and `harmful` count votes, `last_used_ms` is the time of the last one.

    `version` counts changes of content, not votes. A pinned bullet is the user's: only the user changes it.
    """

    id: str
    scope: Scope
    text: str
    when_to_use: str = ""
    importance: Importance = Importance.MEDIUM
    helpful: int = 0
    harmful: int = 0
    state: BulletState = BulletState.ACTIVE
    pinned: bool = False
    provenance: dict[str, JsonValue] = Field(default_factory=dict)
    created_ms: int
    updated_ms: int
    last_used_ms: int | None = None
    version: int = 1


class Add(Value):
    """A new bullet. The caller makes the id (`new_bullet_id`), so that adding twice is adding once."""

    kind: Literal["add"] = "add"
    id: str
    scope: Scope
    text: str
    when_to_use: str = ""
    importance: Importance = Importance.MEDIUM
    provenance: dict[str, JsonValue] = Field(default_factory=dict)


class Reword(Value):
    """Other words or another importance; None leaves a field as it is."""

    kind: Literal["reword"] = "reword"
    id: str
    text: str | None = None
    when_to_use: str | None = None
    importance: Importance | None = None


class Merge(Value):
    """Several bullets that say the same become the first of them, with this text and all their votes."""

    kind: Literal["merge"] = "merge"
    ids: tuple[str, ...]
    text: str
    when_to_use: str = ""
    importance: Importance | None = None
    """None: the highest of theirs."""


class Retire(Value):
    """Shows a bullet no more. `reason` is `limit` when it had to make room. The user's word makes it forgotten, also
    when it was retired already."""

    kind: Literal["retire"] = "retire"
    id: str
    reason: str = ""


class Vote(Value):
    """A bullet helped, or did harm."""

    kind: Literal["vote"] = "vote"
    id: str
    helpful: bool


class Pin(Value):
    """Keeps a bullet at the top whatever happens, or stops doing so. For users only."""

    kind: Literal["pin"] = "pin"
    id: str
    pinned: bool = True


class Rollback(Value):
    """Undoes the change that the ledger has as number `entry`."""

    kind: Literal["rollback"] = "rollback"
    entry: int


Operation = Annotated[Add | Reword | Merge | Retire | Vote | Pin | Rollback, Field(discriminator="kind")]


class Change(Value):
    """What one operation did: the bullets that it touched, before and after. Added bullets have no before.

    `refused` says why it did nothing; then both are empty.
    """

    operation: Operation
    before: tuple[Bullet, ...] = ()
    after: tuple[Bullet, ...] = ()
    refused: str = ""


class _Refused(Exception):
    pass


_RANK: Final = {Importance.HIGH: 0, Importance.MEDIUM: 1, Importance.LOW: 2}


def new_bullet_id(now_ms: int | None = None) -> str:
    """An id for a bullet to add."""
    return "b" + sortable_id(now_ms)


def display_order(bullet: Bullet) -> tuple[bool, int, int, str]:
    """Sorts bullets for a prompt: pinned first, then by importance, then the oldest first. Votes move nothing."""
    return (not bullet.pinned, _RANK[bullet.importance], bullet.created_ms, bullet.id)


def _expendable_order(bullet: Bullet) -> tuple[bool, int, int, int, str]:
    """Sorts bullets that must make room: harmful ones first, then by low importance, few votes, long without use."""
    used = max(bullet.created_ms, bullet.last_used_ms or 0)
    votes = bullet.helpful - bullet.harmful
    return (votes >= 0, -_RANK[bullet.importance], votes, used, bullet.id)


def merge(
    bullets: Iterable[Bullet], operations: Sequence[Operation], now_ms: int, limit: int, *, by_user: bool = False
) -> tuple[tuple[Bullet, ...], tuple[Change, ...]]:
    """Applies operations in order, then retires bullets until at most `limit` (and all pinned ones) are active.

    Returns all bullets in display order and one change per operation, refused ones too, and per bullet retired
    for room. What cannot be applied (an unknown or retired id, a duplicate, a pinned bullet without `by_user`)
    is refused and the others go on.
    """
    book = {bullet.id: bullet for bullet in bullets}
    changes: list[Change] = []
    for operation in operations:
        try:
            after = _outcome(book, operation, now_ms, limit, by_user)
        except _Refused as refusal:
            changes.append(Change(operation=operation, refused=str(refusal)))
        else:
            changes.append(_change(book, operation, after))
    changes += _make_room(book, now_ms, limit, frozenset())
    return tuple(sorted(book.values(), key=display_order)), tuple(changes)


def revert(
    bullets: Iterable[Bullet], entry: int, change: Change, now_ms: int, limit: int
) -> tuple[tuple[Bullet, ...], tuple[Change, ...]]:
    """Undoes a change of the past, which the ledger has as number `entry`; returns what `merge` does.

    Content goes back to what it was, votes that came with the change are taken away, later votes stay, added
    bullets are forgotten. Raises StateConflict if the content has changed since: undo that first.
    """
    book = {bullet.id: bullet for bullet in bullets}
    before = {bullet.id: bullet for bullet in change.before}
    restored = []
    for then in change.after:
        now = book.get(then.id)
        if now is None or _content(now) != _content(then):
            raise StateConflict(
                f"bullet {then.id} has changed since entry {entry}", hint="roll the later change back first"
            )
        old = before.get(then.id)
        if old is None:
            restored.append(_edited(now, now_ms, state=BulletState.FORGOTTEN, pinned=False))
            continue
        votes = {
            "helpful": max(0, now.helpful + old.helpful - then.helpful),
            "harmful": max(0, now.harmful + old.harmful - then.harmful),
        }
        restored.append(_edited(now, now_ms, **_content(old), **votes))
    changes = [_change(book, Rollback(entry=entry), tuple(restored))]
    changes += _make_room(book, now_ms, limit, frozenset(before))
    return tuple(sorted(book.values(), key=display_order)), tuple(changes)


def _change(book: dict[str, Bullet], operation: Operation, after: tuple[Bullet, ...]) -> Change:
    """Puts the bullets into the book and says what that changed."""
    before = tuple(book[bullet.id] for bullet in after if bullet.id in book)
    book.update((bullet.id, bullet) for bullet in after)
    return Change(operation=operation, before=before, after=after)


def _make_room(book: dict[str, Bullet], now_ms: int, limit: int, spared: frozenset[str]) -> list[Change]:
    """Retires what is over the limit; the spared ones only when there is nothing else."""
    active = [bullet for bullet in book.values() if bullet.state is BulletState.ACTIVE]
    loose = sorted((b for b in active if not b.pinned), key=lambda b: (b.id in spared, *_expendable_order(b)))
    surplus = loose[: max(0, len(active) - limit)]
    return [
        _change(book, Retire(id=b.id, reason="limit"), (_edited(b, now_ms, state=BulletState.RETIRED),))
        for b in surplus
    ]


def _content(bullet: Bullet) -> dict[str, object]:
    return {name: getattr(bullet, name) for name in ("text", "when_to_use", "importance", "state", "pinned")}


def _edited(bullet: Bullet, now_ms: int, **values: object) -> Bullet:
    return bullet.model_copy(update=values | {"updated_ms": now_ms, "version": bullet.version + 1})


def _outcome(
    book: dict[str, Bullet], operation: Operation, now_ms: int, limit: int, by_user: bool
) -> tuple[Bullet, ...]:
    """The bullets that the operation makes of those in the book. Raises _Refused."""
    match operation:
        case Add():
            return (_added(book, operation, now_ms),)
        case Reword(id=id):
            return (_reworded(book, _changeable(book, id, by_user), operation, now_ms),)
        case Merge():
            return _merged(book, operation, now_ms, by_user)
        case Retire(id=id):
            return (_retired(book, id, now_ms, by_user),)
        case Vote(id=id, helpful=helpful):
            bullet, count = _active(book, id), "helpful" if helpful else "harmful"
            return (bullet.model_copy(update={count: getattr(bullet, count) + 1, "last_used_ms": now_ms}),)
        case Pin():
            return (_pinned(book, operation, now_ms, limit, by_user),)
        case Rollback():
            raise _Refused("a rollback needs the ledger")


def _active(book: dict[str, Bullet], id: str) -> Bullet:
    bullet = book.get(id)
    if bullet is None or bullet.state is not BulletState.ACTIVE:
        raise _Refused(f"no active bullet {id}")
    return bullet


def _retired(book: dict[str, Bullet], id: str, now_ms: int, by_user: bool) -> Bullet:
    bullet = book.get(id)
    if not by_user or bullet is None or bullet.state is BulletState.FORGOTTEN:
        bullet = _changeable(book, id, by_user)
    state = BulletState.FORGOTTEN if by_user else BulletState.RETIRED
    return _edited(bullet, now_ms, state=state, pinned=False)


def _changeable(book: dict[str, Bullet], id: str, by_user: bool) -> Bullet:
    bullet = _active(book, id)
    if bullet.pinned and not by_user:
        raise _Refused(f"bullet {id} is pinned by the user")
    return bullet


def _line(text: str) -> str:
    """One line of visible characters: a bullet cannot open a section of its own in a prompt, or hide a part."""
    line = "".join(c for c in " ".join(text.split()) if c.isprintable())
    if len(line) > TEXT_MAX:
        raise _Refused(f"longer than {TEXT_MAX} characters")
    return line


def _new_text(book: dict[str, Bullet], text: str, allowed: Iterable[str] = ()) -> str:
    """The text as it is stored, if it says something and no active bullet but the allowed ones says the same."""
    line = _line(text)
    if not line:
        raise _Refused("empty text")
    for bullet in book.values():
        if (
            bullet.state is BulletState.ACTIVE
            and bullet.id not in allowed
            and bullet.text.casefold() == line.casefold()
        ):
            raise _Refused(f"bullet {bullet.id} says the same")
    return line


def _added(book: dict[str, Bullet], add: Add, now_ms: int) -> Bullet:
    if add.id in book:
        raise _Refused(f"bullet {add.id} exists already")
    return Bullet(
        id=add.id,
        scope=add.scope,
        text=_new_text(book, add.text),
        when_to_use=_line(add.when_to_use),
        importance=add.importance,
        provenance=add.provenance,
        created_ms=now_ms,
        updated_ms=now_ms,
    )


def _reworded(book: dict[str, Bullet], bullet: Bullet, reword: Reword, now_ms: int) -> Bullet:
    values: dict[str, object] = {}
    if reword.text is not None:
        values["text"] = _new_text(book, reword.text, {bullet.id})
    if reword.when_to_use is not None:
        values["when_to_use"] = _line(reword.when_to_use)
    if reword.importance is not None:
        values["importance"] = reword.importance
    if not values:
        raise _Refused("nothing to change")
    return _edited(bullet, now_ms, **values)


def _merged(book: dict[str, Bullet], operation: Merge, now_ms: int, by_user: bool) -> tuple[Bullet, ...]:
    if len(set(operation.ids)) < max(2, len(operation.ids)):
        raise _Refused("a merge needs two or more different bullets")
    sources = [_changeable(book, id, by_user) for id in operation.ids]
    if len({source.scope for source in sources}) > 1:
        raise _Refused("bullets of different scopes cannot be merged")
    first, others = sources[0], sources[1:]
    survivor = _edited(
        first,
        now_ms,
        text=_new_text(book, operation.text, operation.ids),
        when_to_use=_line(operation.when_to_use),
        importance=operation.importance or min((s.importance for s in sources), key=_RANK.__getitem__),
        helpful=sum(source.helpful for source in sources),
        harmful=sum(source.harmful for source in sources),
        pinned=any(source.pinned for source in sources),
        last_used_ms=max((s.last_used_ms for s in sources if s.last_used_ms is not None), default=None),
    )
    retired = (_edited(source, now_ms, state=BulletState.RETIRED, pinned=False) for source in others)
    return (survivor, *retired)


def _pinned(book: dict[str, Bullet], pin: Pin, now_ms: int, limit: int, by_user: bool) -> Bullet:
    if not by_user:
        raise _Refused("only the user pins bullets")
    bullet = _active(book, pin.id)
    if bullet.pinned == pin.pinned:
        raise _Refused("it is so already")
    if pin.pinned and sum(other.pinned for other in book.values()) >= limit:
        raise _Refused(f"all {limit} places are taken by pinned bullets")
    return _edited(bullet, now_ms, pinned=pin.pinned)
