"""Keeps optional imports out of services: httpx, structlog and others load rich and pygments when they are installed,
5 MB a process, for terminals that a service does not have. And keeps BLAS to one thread: its pool spins, and what a
service multiplies is small. And lets no thread keep the interpreter for long: an event loop would wait five
milliseconds for each one that computes beside it. Import this first."""

from __future__ import annotations

import os
import sys

sys.setswitchinterval(0.0005)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
for _name in ("rich", "pygments"):
    sys.modules.setdefault(_name, None)  # type: ignore[arg-type]  # an import of it now raises ImportError
