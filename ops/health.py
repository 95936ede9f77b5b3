"""A health check for containers: is a process of ours alive, by what it writes into the state Redis?

`python -m ops.health PREFIX` looks for a live coordinator or worker whose id begins with PREFIX;
`python -m ops.health --key KEY` for a key that its owner renews. Exit code 0 if it is there, 1 if not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ops.supervisor.heartbeats import alive
from shared.errors import CapatazError
from shared.settings import load
from shared.state.connection import connect_sync, mapped


def healthy(url: str, *, prefix: str = "", key: str = "") -> bool:
    """True if a live id begins with `prefix`, or `key` exists. Raises StateUnavailable."""
    with mapped(), connect_sync(url) as client:
        if key:
            return bool(client.exists(key))
        live = alive(client)
        return any(one.startswith(prefix) for one in (*live.coordinators, *live.workers))


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m ops.health", description=__doc__.split("\n")[0] if __doc__ else "")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("prefix", nargs="?", default="", help="how the id begins")
    what.add_argument("--key", default="", help="a key that must exist")
    options = parser.parse_args(argv)
    try:
        good = healthy(load().redis.url, prefix=options.prefix, key=options.key)
    except CapatazError as error:
        print(f"unhealthy: {error}", file=sys.stderr)
        return 1
    if not good:
        print(f"unhealthy: nothing alive for {options.key or options.prefix}", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
