"""An S3 server in this process: moto's, over real HTTP on a free port."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

ACCESS_KEY = "test-access"
SECRET_KEY = "test-secret"


@contextmanager
def s3_server() -> Iterator[str]:
    """Its URL. Without moto the test is skipped at home, and fails in CI."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask_cors") is None:
        reason = "moto's S3 server is not installed: pip install 'capataz[dev]'"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
