"""For all tests: how long something takes is no reason to fail, as machines are busy, and the command line has the
libraries for terminals although tests of services, which keep them out (`shared/lean.py`), run in the same process."""

from __future__ import annotations

import pygments  # type: ignore[import-untyped]  # noqa: F401
import rich  # noqa: F401
from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
