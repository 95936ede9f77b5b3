"""`python -m coordinator.routing FILES… [--json]`: what `capataz route eval` starts."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is imported; its threads spin on busy hosts

    from coordinator.routing.evaluate import main

    sys.exit(main())
