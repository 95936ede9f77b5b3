"""The child of `shared.pdf`: a PDF on standard input, a line of JSON per page on standard output.

It is run as a file of its own, away from the package, and bounds itself before it looks at anything.
"""

from __future__ import annotations

import io
import json
import resource
import sys
import time
from typing import Any


def _say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def _bound(seconds: float, memory_bytes: int) -> None:
    cpu = int(seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Reads pages until there are no more, or a bound is reached."""
    bounds = json.loads(sys.argv[1])
    _bound(bounds["seconds"], bounds["memory_bytes"])
    until = time.monotonic() + bounds["seconds"]
    try:
        from pypdf import PdfReader

        reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
        if reader.is_encrypted and not reader.decrypt(""):
            _say(error="it is encrypted, and needs a password")
            return
        count = len(reader.pages)
        _say(pages=count)
        left = bounds["chars"]
        for number in range(min(count, bounds["pages"])):
            text = reader.pages[number].extract_text()[:left]
            _say(text=text)
            left -= len(text)
            if left <= 0 or time.monotonic() > until:
                return
    except (MemoryError, RecursionError):
        _say(error="it takes too much memory")
    except Exception as error:  # noqa: BLE001 - a parser over hostile bytes may raise anything; it is told
        _say(error=f"it is broken ({type(error).__name__}: {error})"[:300])


if __name__ == "__main__":
    main()
