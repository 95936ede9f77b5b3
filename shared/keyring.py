"""The signing key of an installation: from the environment, or made once in the data folder."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from shared.errors import ConfigError

ENV = "CAPATAZ_SIGNING_KEY"
FILE = "signing.key"
MIN_CHARS = 32


def load_key(data_dir: Path, env: Mapping[str, str] | None = None) -> bytes:
    """The key that coordinator and workers share. Raises ConfigError if there is none or it is too short."""
    env = os.environ if env is None else env
    path = data_dir / FILE
    text = env.get(ENV, "") or (path.read_text("ascii").strip() if path.is_file() else "")
    if not text:
        raise ConfigError(f"no signing key: {ENV} is not set and {path} does not exist", hint="`capataz up` makes one")
    if len(text) < MIN_CHARS:
        raise ConfigError(f"the signing key has {len(text)} characters", hint=f"it needs at least {MIN_CHARS}")
    return text.encode()


def ensure_key(data_dir: Path, env: Mapping[str, str] | None = None) -> bytes:
    """The key; makes one in the data folder (mode 0600) if there is none."""
    env = os.environ if env is None else env
    path = data_dir / FILE
    if not env.get(ENV) and not path.is_file():
        data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(32))
    return load_key(data_dir, env)
