import os
from pathlib import Path

import pytest

from ops.supervisor import plan
from ops.supervisor.plan import Endpoints
from shared.names import QUEUE_TOOLS, QUEUES
from shared.settings import DataSettings, FlowerSettings, Settings, SqlSettings, load

ENDPOINTS = Endpoints("redis://state", "redis+socket://broker", "k" * 64, "secret", 5555)


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("CAPATAZ_") or name == "REDIS_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_children_read_back_what_was_resolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = Settings.model_construct(data=DataSettings(dir=Path("d")), sql=SqlSettings(url="postgresql://x"))
    model = plan.model_env("local", {"base_url": "http://h/v1", "dialect": "openai"}, {"default": "a/b:c"})
    monkeypatch.setenv("CAPATAZ_COORDINATOR__WIDTH", "7")
    for name, value in plan.child_env({}, settings, ENDPOINTS, model).items():
        monkeypatch.setenv(name, value)
    read = load()
    assert (read.redis.url, read.redis.broker_url) == ("redis://state", "redis+socket://broker")
    assert read.data.dir == tmp_path / "d"
    assert read.workspace.dir == tmp_path / "workspace"
    assert read.sql.url == "postgresql://x"
    assert read.models.tiers == {"default": ("local/a/b:c",)}
    assert read.models.providers["local"].base_url == "http://h/v1"
    assert read.coordinator.width == 7


def test_an_empty_address_of_ours_wins_over_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    env = plan.child_env({"CAPATAZ_SQL__URL": "postgresql://theirs"}, Settings.model_construct(), ENDPOINTS)
    assert env["CAPATAZ_SQL__URL"] == ""


def test_what_can_be_forked_is_told_by_its_command() -> None:
    def module(*argv: str) -> tuple[str, ...]:
        return plan.ProcessSpec("p", "worker", argv, {}).module

    assert module(*plan.python("workers", "--name", "w")) == ("workers", "--name", "w")
    assert module("/usr/bin/redis-server", "a", "b", "c") == module("python") == ()


def test_keys_reach_only_who_needs_them() -> None:
    env = {
        "CAPATAZ_SIGNING_KEY": "s",
        "OPENAI_API_KEY": "o",
        "PATH": "/bin",
        "AWS_SECRET_ACCESS_KEY": "a",
        "REDIS_URL": "r",
    }
    by_role: dict[str, dict[str, str]] = {}
    for spec in plan.processes(Settings.model_construct(), ENDPOINTS, env):
        by_role[spec.role] = dict(spec.env)
    assert by_role["coordinator"]["OPENAI_API_KEY"] == by_role["worker"]["OPENAI_API_KEY"] == "o"
    for role in ("beat", "flower"):
        assert by_role[role]["REDIS_URL"] == "r"
        assert not {"CAPATAZ_SIGNING_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY"} & set(by_role[role])
    assert not {"CAPATAZ_SIGNING_KEY", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY"} & set(plan.fork_env(env))
    assert by_role["flower"]["CAPATAZ_FLOWER_PASSWORD"] == "secret"
    assert "CAPATAZ_FLOWER_PASSWORD" not in by_role["beat"]


def test_profiles_cover_every_queue() -> None:
    assert plan.worker_queues("small", None) == [QUEUES]
    assert plan.worker_queues("small", 3) == [QUEUES] * 3
    full = plan.worker_queues("full", None)
    assert full[:2] == [(QUEUE_TOOLS,), (QUEUE_TOOLS,)]
    assert len(full) == 3
    assert {queue for queues in full for queue in queues} == set(QUEUES)


def test_every_role_has_its_place_in_the_stop_order() -> None:
    settings = Settings.model_construct()
    specs = [*plan.processes(settings, ENDPOINTS, {}, profile="full"), plan.rehearsal(1, Path("f"), {})]
    placed = [role for stage in plan.STOP_ORDER for role in stage]
    assert {spec.role for spec in specs} | {"state", "broker"} == set(placed)
    assert len({spec.name for spec in specs}) == len(specs)
    assert placed.index("coordinator") < placed.index("worker") < placed.index("rehearsal") < placed.index("state")


def test_flower_can_be_switched_off() -> None:
    settings = Settings.model_construct(flower=FlowerSettings(enabled=False))
    assert "flower" not in {spec.role for spec in plan.processes(settings, ENDPOINTS, {})}


def test_a_checkout_is_importable_for_children_and_keeps_the_callers_path() -> None:
    assert plan.import_path({"PYTHONPATH": "/mine"}) == {"PYTHONPATH": f"{plan.ROOT}{os.pathsep}/mine"}
