"""The container files against the code: what they start exists, what they set is known."""

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared import settings as settings_module
from shared.names import QUEUES
from shared.settings import Settings

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "compose"
DOCUMENT: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "capataz"]

_VARIABLE = re.compile(r"(?<!\$)\$\{([A-Z_]+)")
_SECRETS = ("STATE_PASSWORD", "BROKER_PASSWORD", "CAPATAZ_SIGNING_KEY", "CAPATAZ_FLOWER_PASSWORD")


def _words(service: dict[str, Any]) -> list[str]:
    return " ".join(service["command"]).split()


def _modules(text: str) -> list[str]:
    return re.findall(r"python -m ([\w.]+)", text)


def test_every_part_of_a_system_is_there() -> None:
    assert set(SERVICES) == {"state", "broker", "coordinator", "worker", "beat", "flower", "rehearsal"}
    assert SERVICES["worker"]["deploy"]["replicas"] == 2


@pytest.mark.parametrize("name", OURS)
def test_commands_and_checks_start_modules_that_exist(name: str) -> None:
    service = SERVICES[name]
    check = " ".join(service["healthcheck"]["test"])
    modules = _modules(" ".join(service["command"])) + _modules(check)
    assert modules
    for module in modules:
        spec = importlib.util.find_spec(module)
        assert spec is not None, module
        if spec.submodule_search_locations:
            assert importlib.util.find_spec(f"{module}.__main__") is not None, module


def test_workers_serve_every_queue() -> None:
    words = _words(SERVICES["worker"])
    assert tuple(words[words.index("--queues") + 1].split(",")) == QUEUES


@pytest.mark.parametrize("name", OURS)
def test_settings_in_the_environment_are_known(name: str) -> None:
    ours = {key: "x" for key in SERVICES[name].get("environment", {}) if key.startswith("CAPATAZ_")}
    assert settings_module._unknown_env(ours) is None


def test_the_shared_settings_file_is_valid() -> None:
    values = tomllib.loads((COMPOSE / "capataz.toml").read_text("utf-8"))
    settings = Settings(**values)
    (reference,) = settings.models.tiers["default"]
    assert reference.split("/")[0] in settings.models.providers
    port = _words(SERVICES["rehearsal"])[-1]
    assert settings.models.providers["rehearsal"].base_url == f"http://rehearsal:{port}/v1"
    assert DOCUMENT["configs"]["settings"]["file"] == "./capataz.toml"


def test_the_state_is_strict_and_the_broker_keeps_nothing() -> None:
    state, broker = (" ".join(SERVICES[name]["command"]) for name in ("state", "broker"))
    assert "--appendonly yes --appendfsync always" in state
    assert "--appendonly no" in broker
    for command in (state, broker):
        assert "--maxmemory-policy noeviction" in command
        assert '--requirepass "$$REDISCLI_AUTH"' in command
    assert "state:/data" in SERVICES["state"]["volumes"]


def test_addresses_name_services() -> None:
    for name in set(OURS) - {"rehearsal"}:
        environment = SERVICES[name]["environment"]
        hosts = [
            re.sub(r".*@([a-z]+):.*", r"\1", environment[key]) for key in ("REDIS_URL", "CAPATAZ_REDIS__BROKER_URL")
        ]
        assert hosts == ["state", "broker"]


def test_keys_reach_only_who_needs_them() -> None:
    for name in OURS:
        environment = set(SERVICES[name].get("environment", {}))
        has = bool(environment & {"CAPATAZ_SIGNING_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"})
        assert has is (name in ("coordinator", "worker")), name


def test_volumes_are_declared_and_shared_by_those_who_need_them() -> None:
    used = {
        mount.split(":")[0]
        for service in SERVICES.values()
        for mount in service.get("volumes", ())
        if mount[0] not in "./"
    }
    assert used == set(DOCUMENT["volumes"])
    for name in ("coordinator", "worker"):
        mounts = dict(mount.split(":") for mount in SERVICES[name]["volumes"])
        environment = SERVICES[name]["environment"]
        assert mounts == {"data": environment["CAPATAZ_DATA__DIR"], "workspace": environment["CAPATAZ_WORKSPACE__DIR"]}


def test_every_service_has_a_check_and_ports_stay_on_this_machine() -> None:
    for name, service in SERVICES.items():
        assert service["healthcheck"]["test"], name
        for port in service.get("ports", ()):
            assert port.startswith("127.0.0.1:"), name


def test_secrets_come_from_the_environment_and_have_no_default() -> None:
    text = (COMPOSE / "compose.yaml").read_text("utf-8")
    example = (COMPOSE / "env.example").read_text("utf-8")
    for secret in _SECRETS:
        assert re.search(rf"\$\{{{secret}:\?", text), secret
        assert f"{secret}=\n" in example, "the example must not ship a secret"
    names = {line.split("=")[0] for line in example.splitlines() if "=" in line and not line.startswith("#")}
    assert names <= set(_VARIABLE.findall(text))


def test_the_image_has_all_packages_and_no_root() -> None:
    text = (COMPOSE / "Dockerfile").read_text("utf-8")
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["root_packages"]
    ignore = (COMPOSE / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    for name in packages:
        assert re.search(rf"^COPY {name} {name}$", text, re.MULTILINE), name
        assert f"!{name}" in ignore
    for source in re.findall(r"^COPY (?!--)(.+) \./$", text, re.MULTILINE):
        for file in source.split():
            assert (ROOT / file).is_file()
            assert f"!{file}" in ignore
    assert re.search(r"^USER capataz$", text, re.MULTILINE)
    assert text.index("USER capataz") > text.index("pip install --no-deps .")
    assert "--require-hashes -r requirements.lock" in text
    assert SERVICES["coordinator"]["build"]["dockerfile"] == "compose/Dockerfile"
