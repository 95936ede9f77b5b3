"""Extras: what the project declares, what it tells people to install, and what `doctor` says is missing."""

from __future__ import annotations

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from ops import extras
from ops.doctor import examine, render

ROOT = Path(__file__).parents[3]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


def test_all_is_every_extra_for_users() -> None:
    (line,) = DECLARED["all"]
    assert set(re.findall(r"[\w-]+", line.removeprefix("capataz"))) == set(DECLARED) - {"all", "dev"}


def test_what_people_are_told_to_install_is_declared() -> None:
    told: set[str] = set()
    for place in ("shared", "coordinator", "workers", "ops", "README.md"):
        path = ROOT / place
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            for named in re.findall(r"pip install '?capataz\[([\w,-]+)\]", file.read_text("utf-8")):
                told |= set(named.split(","))
    assert told >= {"mail", "calendar", "storage", "tv", "pdf", "feeds", "postgres"}
    assert told <= set(DECLARED)


def test_what_metadata_say_each_extra_brings() -> None:
    lines = ['imap-tools<2,>=1.16; extra == "mail"', "typer>=0.12", "moto[s3]>=5; extra == 'dev'",
             'psycopg[binary]<4,>=3.2; python_version > "3" and extra == "postgres"',
             'capataz[mail]; extra == "all"']  # fmt: skip
    assert extras.needs(lines) == {"mail": ("imap-tools",), "postgres": ("psycopg",)}


def test_doctor_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    real = metadata.version

    def without(name: str) -> str:
        if name in ("pypdf", "amqp"):
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", without)
    monkeypatch.setattr(
        metadata,
        "requires",
        lambda _: ["pypdf>=7; extra == 'pdf'", "amqp; extra == 'rabbitmq'", "redis; extra=='mail'"],
    )
    text = render(examine(dict(os.environ)))
    assert "not installed: pdf (pypdf), rabbitmq (amqp)" in text
    assert "pip install 'capataz[pdf,rabbitmq]'" in text

    def unknown(_: str) -> list[str]:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr(metadata, "requires", unknown)
    assert extras.missing_extras() == {}
