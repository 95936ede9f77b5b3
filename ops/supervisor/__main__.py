"""`python -m ops.supervisor OPTIONS`: what `capataz up` becomes; OPTIONS is `Options` as JSON.

Not in the process of the command line, whose libraries a system that stays for months would keep in memory.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ops.exits import code_of
from ops.supervisor.report import reporter
from ops.supervisor.supervisor import Options, Supervisor
from shared.errors import CapatazError
from shared.settings import load


def main(argv: Sequence[str]) -> int:
    """Keeps a system up until it is asked to stop."""
    options = json.loads(argv[0])
    options["scenarios"] = tuple(map(Path, options["scenarios"]))
    try:
        settings = load()
        out = reporter()
        try:
            asyncio.run(Supervisor(settings, Options(**options), out).run())
        finally:
            out.close()
    except CapatazError as error:
        print(f"capataz: {error}", file=sys.stderr)
        return code_of(error)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
