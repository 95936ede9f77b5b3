"""`python -m workers.catalogue`: prints, as JSON, what a worker with these settings would offer.

With `--all` also the tools that are not configured.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from shared.contract import Catalogue
from shared.errors import CapatazError
from shared.settings import Settings, load
from workers.declare import Registry


def whole(registry: Registry, settings: Settings) -> Catalogue:
    """What the registry would offer if nothing were missing in the settings."""
    tools = {name: replace(tool, requires=None) for name, tool in registry.tools.items()}
    return replace(registry, tools=tools).catalogue(settings)


def main() -> None:
    """Prints the catalogue; problems with users' own tools go to standard error."""
    try:
        settings = load()
        registry = Registry()
        registry.load_builtin()
        for problem in registry.load_user(settings.worker.tool_modules):
            print(problem, file=sys.stderr)
        offered = whole(registry, settings) if "--all" in sys.argv[1:] else registry.catalogue(settings)
        print(offered.model_dump_json())
    except CapatazError as error:
        sys.exit(f"no catalogue: {error}")


if __name__ == "__main__":
    main()
