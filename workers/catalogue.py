"""`python -m workers.catalogue`: prints, as JSON, what a worker with these settings would offer."""

from __future__ import annotations

import sys

from shared.errors import CapatazError
from shared.settings import load
from workers.declare import Registry


def main() -> None:
    """Prints the catalogue; problems with users' own tools go to standard error."""
    try:
        settings = load()
        registry = Registry()
        registry.load_builtin()
        for problem in registry.load_user(settings.worker.tool_modules):
            print(problem, file=sys.stderr)
        print(registry.catalogue(settings).model_dump_json())
    except CapatazError as error:
        sys.exit(f"no catalogue: {error}")


if __name__ == "__main__":
    main()
