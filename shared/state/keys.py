"""Every Redis key: its name, type, lifetime and who writes it. The Lua scripts build the same names.

The installation has one primary and no Redis Cluster, so scripts may span keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from shared.names import LOCAL_PRINCIPAL

PREFIX: Final = "capataz:"


@dataclass(frozen=True)
class KeyDoc:
    """One row of the key table. `pattern` has `<…>` for variable parts."""

    pattern: str
    type: str
    ttl: str
    writers: str
    doc: str


TABLE: Final = (
    KeyDoc("inbox", "stream", "none; entries deleted when routed", "clients", "the local owner's submissions"),
    KeyDoc("inbox:<principal>", "stream", "none; entries deleted when routed", "that user", "a user's submissions"),
    KeyDoc("reply:<name>", "list", "limits.reply_ttl_s", "coordinator", "answers asked for with reply_to"),
    KeyDoc("dead", "stream", "trimmed to 1000", "coordinator", "refused entries with their reason"),
    KeyDoc("dedupe:<principal>:<id>", "string", "limits.dedupe_ttl_s", "coordinator", "message id -> run id"),
    KeyDoc("runnable", "zset", "none", "coordinator", "principals with a runnable session, by their last turn"),
    KeyDoc("runnable:<principal>", "zset", "none", "coordinator", "sessions with a waiting message, by time"),
    KeyDoc("turns", "zset", "none; oldest beyond 10000 removed", "coordinator", "principals by their last turn"),
    KeyDoc("waiting:<principal>", "zset", "none", "coordinator", "runs that wait for their turn, by time"),
    KeyDoc("rate:<principal>", "string", "until it is full, and a minute", "coordinator", "the bucket of messages"),
    KeyDoc("session:<sid>", "hash", "limits.session_ttl_s", "coordinator", "owner, active run, times"),
    KeyDoc("session:<sid>:queue", "list", "limits.session_ttl_s", "coordinator", "messages that wait their turn"),
    KeyDoc("session:<sid>:log", "stream", "limits.session_ttl_s", "coordinator, worker", "the log: what happened"),
    KeyDoc("session:<sid>:log:<part>", "stream", "600 s", "coordinator", "an archived log that is being rebuilt"),
    KeyDoc("session:<sid>:events", "stream", "limits.session_ttl_s; trimmed", "coordinator, worker", "public events"),
    KeyDoc("session:<sid>:facts", "hash", "limits.session_ttl_s", "coordinator, worker", "shared facts with versions"),
    KeyDoc("session:<sid>:settings", "hash", "limits.session_ttl_s", "coordinator", "how it goes on"),
    KeyDoc("session:<sid>:waits", "hash", "limits.session_ttl_s", "coordinator, worker", "what waits for a person"),
    KeyDoc("session:<sid>:todo", "string", "limits.session_ttl_s", "worker", "the session's to-do list"),
    KeyDoc("sessions", "zset", "none; oldest beyond 10000 removed", "coordinator", "sessions by last activity"),
    KeyDoc("run:<rid>", "hash", "limits.run_ttl_s after its end", "coordinator", "state, lease, sequence, reply"),
    KeyDoc("run:<rid>:replies", "set", "limits.run_ttl_s after its end", "coordinator", "reply names of this run"),
    KeyDoc("run:<rid>:mail", "list", "none; deleted at its end", "coordinator", "control entries for its owner"),
    KeyDoc("run:<rid>:ledger", "hash", "limits.run_ttl_s after its end", "coordinator, worker", "one row per node"),
    KeyDoc("runs:active", "set", "none", "coordinator", "runs with a slot; what a takeover looks through"),
    KeyDoc("runs:active:<principal>", "set", "none", "coordinator", "those of them that messages of one opened"),
    KeyDoc("runs:parked", "zset", "none", "coordinator", "runs that only wait, by the time at which they wake"),
    KeyDoc("runs:recent", "zset", "none; oldest beyond 1000 removed", "coordinator", "runs by time of creation"),
    KeyDoc("archive", "zset", "none", "coordinator", "ended runs whose copy in SQL is due"),
    KeyDoc("job:<name>", "string", "1 h", "coordinator", "whose turn a job is that one of them does"),
    KeyDoc("epoch", "string", "none", "coordinator", "random; another value means that the state was lost"),
    KeyDoc("tick", "string", "30 days", "worker", "when a worker last looked what is due, as JSON"),
    KeyDoc("coordinators", "zset", "none; stale members removed", "coordinator", "coordinators by last heartbeat"),
    KeyDoc("coordinator:<cid>", "string", "coordinator.lease_ttl_s", "coordinator", "the heartbeat of a process"),
    KeyDoc(
        "hints:<cid>",
        "stream",
        "60 s after the newest; trimmed to 10000",
        "coordinator, worker",
        "wake-ups for one process",
    ),
    KeyDoc("workers", "zset", "none; stale members removed", "worker", "workers by last heartbeat"),
    KeyDoc("worker:<wid>", "string", "worker.lease_ttl_s", "worker", "the heartbeat: a WorkerInfo as JSON"),
    KeyDoc("catalogue:<digest>", "string", "60 s, renewed", "worker", "a Catalogue as JSON"),
    KeyDoc("gate:breaker:<model>", "hash", "2 x models.breaker.most_s", "coordinator, worker", "a model that failed"),
    KeyDoc("gate:slots:<provider>", "zset", "longest call", "coordinator, worker", "calls under way, by their end"),
    KeyDoc("gate:spend:<day>", "hash", "2 days", "coordinator, worker", "tokens and nanodollars of a day since 1970"),
    KeyDoc("gate:spend:<day>:<principal>", "hash", "2 days", "coordinator, worker", "the same of one user"),
    KeyDoc("gate:call:<call>", "hash", "longest call", "coordinator, worker", "what a call under way has reserved"),
)


def inbox(principal: str = LOCAL_PRINCIPAL) -> str:
    """The inbox stream of a principal."""
    return f"{PREFIX}inbox" if principal == LOCAL_PRINCIPAL else f"{PREFIX}inbox:{principal}"


def principal_of(inbox_key: str) -> str:
    """Whose inbox this is: who someone is comes from the key, never from a field."""
    return inbox_key.removeprefix(f"{PREFIX}inbox").removeprefix(":") or LOCAL_PRINCIPAL


def reply(name: str) -> str:
    """The reply list of a `reply_to` name."""
    return f"{PREFIX}reply:{name}"


def runnable(principal: str = LOCAL_PRINCIPAL) -> str:
    """The runnable sessions of a principal."""
    return f"{PREFIX}runnable:{principal}"


def waiting(principal: str = LOCAL_PRINCIPAL) -> str:
    """The runs of a principal that wait for their turn."""
    return f"{PREFIX}waiting:{principal}"


def active_of(principal: str = LOCAL_PRINCIPAL) -> str:
    """The runs of a principal that have begun and not ended, parked ones among them."""
    return f"{PREFIX}runs:active:{principal}"


def session(sid: str) -> str:
    """The session's hash."""
    return f"{PREFIX}session:{sid}"


def queue(sid: str) -> str:
    """The session's waiting messages."""
    return f"{PREFIX}session:{sid}:queue"


def log(sid: str) -> str:
    """The session's log."""
    return f"{PREFIX}session:{sid}:log"


def events(sid: str) -> str:
    """The session's public events."""
    return f"{PREFIX}session:{sid}:events"


def facts(sid: str) -> str:
    """The session's shared facts."""
    return f"{PREFIX}session:{sid}:facts"


def waits(sid: str) -> str:
    """Approvals and questions of a session that are open."""
    return f"{PREFIX}session:{sid}:waits"


def switches(sid: str) -> str:
    """How the session goes on: fields of `messages.Switches`."""
    return f"{PREFIX}session:{sid}:settings"


def todo(sid: str) -> str:
    """The session's to-do list."""
    return f"{PREFIX}session:{sid}:todo"


def run(rid: str) -> str:
    """The run's hash."""
    return f"{PREFIX}run:{rid}"


def replies(rid: str) -> str:
    """Names of the lists that wait for the run's reply."""
    return f"{PREFIX}run:{rid}:replies"


def mail(rid: str) -> str:
    """The run's mailbox."""
    return f"{PREFIX}run:{rid}:mail"


def ledger(rid: str) -> str:
    """The run's ledger."""
    return f"{PREFIX}run:{rid}:ledger"


def coordinator(cid: str) -> str:
    """A coordinator's heartbeat."""
    return f"{PREFIX}coordinator:{cid}"


def job(name: str) -> str:
    """Whose turn a job is."""
    return f"{PREFIX}job:{name}"


def hints(cid: str) -> str:
    """A coordinator's hint stream."""
    return f"{PREFIX}hints:{cid}"


def worker(wid: str) -> str:
    """A worker's heartbeat."""
    return f"{PREFIX}worker:{wid}"


def catalogue(digest: str) -> str:
    """A catalogue by its digest."""
    return f"{PREFIX}catalogue:{digest}"


def spend(day: int, principal: str = "") -> str:
    """What was spent on a day (days since 1970), by everybody or by one user."""
    return f"{PREFIX}gate:spend:{day}" + (f":{principal}" if principal else "")


RUNNABLE: Final = f"{PREFIX}runnable"
"""Principals who wait to be served; `runnable` has the sessions of one."""
DEAD: Final = f"{PREFIX}dead"
ARCHIVE: Final = f"{PREFIX}archive"
ACTIVE: Final = f"{PREFIX}runs:active"
PARKED: Final = f"{PREFIX}runs:parked"
RECENT: Final = f"{PREFIX}runs:recent"
SESSIONS: Final = f"{PREFIX}sessions"
COORDINATORS: Final = f"{PREFIX}coordinators"
WORKERS: Final = f"{PREFIX}workers"
EPOCH: Final = f"{PREFIX}epoch"
TICK: Final = f"{PREFIX}tick"
GROUP: Final = "coordinators"
"""The consumer group on the inboxes: an alarm clock only."""
