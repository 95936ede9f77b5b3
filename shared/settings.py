"""The typed tree of settings: defaults < `capataz.toml` < environment.

Environment names are `CAPATAZ_<SECTION>__<KEY>` (for example `CAPATAZ_COORDINATOR__MAX_RUNS=50`), and
`REDIS_URL` for the state Redis. Secrets come from the environment only: the file names the variable that holds
one, never its value. An unknown key, in the file or in a `CAPATAZ_` variable, is an error that names it.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from shared.delivery_settings import DeliverySettings
from shared.errors import ConfigError
from shared.ids import is_name
from shared.names import MAX_PRINCIPAL
from shared.permissions import Policy
from shared.tool_settings import (
    AttachmentSettings,
    CalendarSettings,
    MailSettings,
    MediaSettings,
    RedditSettings,
    Section,
    ShellSettings,
    StorageSettings,
    TvSettings,
    WebSettings,
)
from shared.workflow_settings import WorkflowSettings


class DataSettings(Section):
    """Where state lives on this host."""

    dir: Path = Path(".capataz")


class RedisSettings(Section):
    """The state Redis and the broker. Empty URLs: `capataz up` starts its own servers in the data folder."""

    url: str = ""
    broker_url: str = ""
    durability: Literal["strict", "relaxed"] = "strict"
    max_memory_mb: int = Field(default=256, ge=16)


class SqlSettings(Section):
    """The archive. Empty: SQLite in the data folder; else an SQLAlchemy URL (`postgresql+psycopg://…`)."""

    url: str = ""


class WorkspaceSettings(Section):
    """The folder that the files tools may touch; all workers of the `files` group share it."""

    dir: Path = Path("workspace")
    max_file_bytes: int = Field(default=10_000_000, ge=1)
    writable: tuple[str, ...] = (".",)
    """Folders in it, relative to it, below which tools may write; none: they only read."""
    protected: tuple[str, ...] = (".git", "AGENTS.md", "CLAUDE.md", "CONTEXT.md")
    """Names of files and folders that tools never write, wherever they are: what configures programs or prompts."""


class BudgetSettings(Section):
    """Bounds of one run by default, and of all model calls of a day (UTC): a user's, and everybody's together.

    Zero tokens or dollars mean no bound. A run's bounds give it one last answer; those of a day refuse a call.
    """

    steps: int = Field(default=90, ge=1, le=1000)
    seconds: float = Field(default=900.0, gt=0)
    tokens: int = Field(default=0, ge=0)
    dollars: float = Field(default=0.0, ge=0)
    user_day_tokens: int = Field(default=0, ge=0)
    user_day_dollars: float = Field(default=0.0, ge=0)
    day_tokens: int = Field(default=0, ge=0)
    day_dollars: float = Field(default=0.0, ge=0)
    unpriced: Literal["refuse", "allow"] = "refuse"
    """Whether a bound in dollars refuses a model whose price is not known, since it could not hold."""


class CoordinatorSettings(Section):
    """How one coordinator works. `width` is how many nodes of one run are at workers at once."""

    max_runs: int = Field(default=500, ge=1)
    width: int = Field(default=32, ge=1)
    calls_per_turn: int = Field(default=1000, ge=1)
    batch: int = Field(default=20, ge=1)
    agent_depth: int = Field(default=3, ge=0)
    """How deep subagents may start subagents; 0: not at all."""
    early_start: bool = True
    """Send whole `read` calls to workers while the model still streams."""
    claims_guard: bool = True
    """Hold answers against what tools did: ask once more, and mark what nothing speaks for."""
    lease_ttl_s: float = Field(default=5.0, gt=0)
    wait_for_workers_s: float = Field(default=15.0, ge=0)
    """How long after the coordinator's start messages wait for a first worker, rather than begin without tools."""
    stop_grace_s: float = Field(default=10.0, ge=0)
    agents_dir: Path = Path("agents")


class WorkerSettings(Section):
    """How one worker process works: Celery `threads` (messages at once) and `slots` (nodes at once)."""

    threads: int = Field(default=16, ge=1)
    slots: int = Field(default=64, ge=1)
    blocking_threads: int = Field(default=16, ge=1)
    drain_s: float = Field(default=20.0, ge=0)
    """How long a stopping worker lets `write` calls finish."""
    lease_ttl_s: float = Field(default=5.0, gt=0)
    ping_s: float = Field(default=10.0, ge=0)
    """How often a worker sends itself a message over the broker, to hear whether it still gets any; 0: never."""
    ping_misses: int = Field(default=3, ge=1)
    """After so many that did not come in a row it ends, to be started anew."""
    task_events: bool = True
    tool_modules: tuple[str, ...] = ()
    """Python files or importable modules with a user's own tools."""


class SupervisorSettings(Section):
    """How `capataz up` looks after its processes: one that lives without a heartbeat for `stuck_s` is replaced."""

    stuck_s: float = Field(default=15.0, gt=0)


class ProviderSettings(Section):
    """One model provider. `api_key_env` names the environment variable that holds the key.

    `concurrency` bounds the calls that all processes of the installation make to it at once; 0 is no bound.
    """

    preset: str = ""
    dialect: Literal["", "openai", "anthropic"] = ""
    base_url: str = ""
    api_key_env: str = ""
    switches: dict[str, Any] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    concurrency: int = Field(default=0, ge=0)


class ModelFacts(Section):
    """What a provider does not tell about a model: its window in tokens (0: not known), and whether it can see."""

    window: int = Field(default=0, ge=0)
    images: bool = True


class RouteSettings(Section):
    """Which tier answers a message whose user and agent name no model. A tier that is not configured is `default`.

    `groups` and `agents` map tool groups and agents to tiers. `images` is the tier for images that the default model
    cannot see, `long` the one for prompts of more than `long_above` tokens; empty switches the rule off.
    """

    groups: dict[str, str] = Field(default_factory=lambda: {"utility": "fast"})
    agents: dict[str, str] = Field(default_factory=dict)
    images: str = "vision"
    long: str = "long"
    long_above: int = Field(default=24_000, ge=1)


class BreakerSettings(Section):
    """When a model rests: after so many failures in a row within `within_s`, for `cooldown_s`.

    Then one call tries it; each failure of that one doubles the rest, up to `most_s`.
    """

    failures: int = Field(default=3, ge=1)
    within_s: float = Field(default=60.0, gt=0)
    cooldown_s: float = Field(default=5.0, gt=0)
    most_s: float = Field(default=300.0, gt=0)


class ModelSettings(Section):
    """Providers by name, and tiers: each an ordered chain of `provider/model`.

    `about` has what is known of models, by `provider/model`; a `*` stands for any characters. `patience_s` is how
    long a call waits for a provider's free slot, or for a model that rests when there is no other.
    """

    providers: dict[str, ProviderSettings] = Field(default_factory=dict)
    tiers: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    about: dict[str, ModelFacts] = Field(default_factory=dict)
    routes: RouteSettings = RouteSettings()
    breaker: BreakerSettings = BreakerSettings()
    patience_s: float = Field(default=20.0, ge=0)
    connect_s: float = Field(default=10.0, gt=0)
    first_token_s: float = Field(default=60.0, gt=0)
    idle_s: float = Field(default=30.0, gt=0)
    total_s: float = Field(default=300.0, gt=0)
    attempts: int = Field(default=3, ge=1)
    prices: Path | None = None
    """A price table of your own (TOML, as shared/llm/prices.toml), above the shipped one."""


class RoutingSettings(Section):
    """Tool routing. `encoder`: `packaged`, `off` for words alone, or the embeddings model of a provider as
    `PROVIDER/MODEL` (OpenAI-compatible)."""

    encoder: str = Field(default="packaged", pattern=r"^(?:packaged|off|[^/\s]+/\S+)$")
    max_tools: int = Field(default=24, ge=1)


class PlaybookSettings(Section):
    """The learned playbook."""

    enabled: bool = True
    max_bullets: int = Field(default=50, ge=1)


class FlowerSettings(Section):
    """Flower under `capataz up`. The password comes from CAPATAZ_FLOWER_PASSWORD or is made at first start."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    user: str = "capataz"


class LimitSettings(Section):
    """Bounds on what is accepted. Sizes in bytes, ages in seconds.

    `waiting`, `running` and `rate_per_minute` bound the messages of one principal over all sessions; `queue_age_s` is
    how long a message may wait for its turn. Zero is no bound for `running`, `rate_per_minute` and `queue_age_s`.
    """

    text_bytes: int = Field(default=200_000, ge=1)
    attachment_bytes: int = Field(default=2_000_000, ge=0)
    inbox_entries: int = Field(default=20_000, ge=1)
    session_queue: int = Field(default=100, ge=1)
    waiting: int = Field(default=1000, ge=1)
    running: int = Field(default=50, ge=0)
    rate_per_minute: int = Field(default=600, ge=0)
    queue_age_s: int = Field(default=0, ge=0)
    memory_percent: int = Field(default=90, ge=1, le=100)
    """Of the state Redis's maxmemory; above it new messages are refused."""
    reply_ttl_s: int = Field(default=3600, ge=1)
    dedupe_ttl_s: int = Field(default=7 * 86400, ge=1)
    events_kept: int = Field(default=20_000, ge=100)
    session_ttl_s: int = Field(default=30 * 86400, ge=60)
    run_ttl_s: int = Field(default=86400, ge=60)


class RetentionSettings(Section):
    """How many days the archive keeps what is over; 0 is for ever. A session goes when nothing of it is left.

    `runs_days` is for runs with their part of the log, and for past reminders; `costs_days` for the bill;
    `playbook_days` for retired bullets and the changes that can be undone; `artifacts_days` for stored values and
    attachments, from when they were last stored.
    """

    runs_days: int = Field(default=365, ge=0)
    costs_days: int = Field(default=730, ge=0)
    playbook_days: int = Field(default=365, ge=0)
    artifacts_days: int = Field(default=365, ge=0)

    @property
    def artifacts_s(self) -> float | None:
        """Seconds that a value is kept after it was last stored; None for ever."""
        return self.artifacts_days * 86_400.0 or None


class PermissionSettings(Policy):
    """The installation's rules about calls. `headless` is what an `ask` becomes where nobody can be asked.

    A question that nobody has answered after `expiry_s` counts as refused.
    """

    headless: Literal["deny", "allow"] = "deny"
    expiry_s: float = Field(default=86_400.0, gt=0)


class Settings(BaseSettings):
    """All settings. Build it with `load`."""

    model_config = SettingsConfigDict(
        env_prefix="CAPATAZ_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        nested_model_default_partial_update=True,
    )

    data: DataSettings = DataSettings()
    redis: RedisSettings = RedisSettings()
    sql: SqlSettings = SqlSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    budget: BudgetSettings = BudgetSettings()
    coordinator: CoordinatorSettings = CoordinatorSettings()
    worker: WorkerSettings = WorkerSettings()
    supervisor: SupervisorSettings = SupervisorSettings()
    models: ModelSettings = ModelSettings()
    routing: RoutingSettings = RoutingSettings()
    web: WebSettings = WebSettings()
    playbook: PlaybookSettings = PlaybookSettings()
    flower: FlowerSettings = FlowerSettings()
    limits: LimitSettings = LimitSettings()
    workflows: WorkflowSettings = WorkflowSettings()
    delivery: DeliverySettings = DeliverySettings()
    retention: RetentionSettings = RetentionSettings()
    permissions: PermissionSettings = PermissionSettings()
    storage: StorageSettings = StorageSettings()
    media: MediaSettings = MediaSettings()
    tv: TvSettings = TvSettings()
    attachments: AttachmentSettings = AttachmentSettings()
    shell: ShellSettings = ShellSettings()
    reddit: RedditSettings = RedditSettings()
    mail: MailSettings = MailSettings()
    calendar: CalendarSettings = CalendarSettings()
    principals: tuple[str, ...] = ()
    """Users besides the local owner; each has the inbox `capataz:inbox:<principal>`."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Environment above the values of the file, which arrive as init values."""
        return env_settings, init_settings


# Read by other code under the CAPATAZ_ prefix; they are not fields of the tree.
_OTHER_ENV = {
    "CAPATAZ_CONFIG",
    "CAPATAZ_FLOWER_PASSWORD",
    "CAPATAZ_LOG",
    "CAPATAZ_SIGNING_KEY",
    "CAPATAZ_WORKER_ID",
    "CAPATAZ_WORKER_QUEUES",
}


def config_file(env: dict[str, str] | None = None) -> Path | None:
    """The file in force: `CAPATAZ_CONFIG`, else `capataz.toml` in the current folder, else None."""
    env = dict(os.environ) if env is None else env
    if named := env.get("CAPATAZ_CONFIG"):
        path = Path(named)
        if not path.is_file():
            raise ConfigError(f"CAPATAZ_CONFIG names {named}, which is not a file")
        return path
    path = Path("capataz.toml")
    return path if path.is_file() else None


def _unknown_env(env: dict[str, str]) -> str | None:
    for name in sorted(env):
        if not name.startswith("CAPATAZ_") or name in _OTHER_ENV:
            continue
        node: Any = Settings
        for part in name.removeprefix("CAPATAZ_").lower().split("__"):
            if not (isinstance(node, type) and issubclass(node, BaseModel)):
                break  # inside a free-form mapping
            if part not in node.model_fields:
                return name
            node = node.model_fields[part].annotation
    return None


def load() -> Settings:
    """Reads file and environment. Raises ConfigError naming the key and where it came from."""
    env = dict(os.environ)
    path = config_file(env)
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text("utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not valid TOML: {error}") from error
    if (name := _unknown_env(env)) is not None:
        raise ConfigError(f"unknown setting in the environment: {name}", hint="see `capataz doctor` for the known ones")
    in_file = dict(values)
    url = env.get("REDIS_URL")  # environment wins over the file; CAPATAZ_REDIS__URL wins over both
    if url and isinstance(section := values.get("redis", {}), dict):
        values["redis"] = {**section, "url": url}
    try:
        settings = Settings(**values)
    except SettingsError as error:
        raise ConfigError(f"the environment: {error}", hint="lists and tables are written as JSON there") from error
    except ValidationError as error:
        first = error.errors()[0]
        loc = tuple(part for part in first["loc"] if part != "[key]")  # pydantic's mark for a wrong key of a mapping
        key = ".".join(str(part) for part in loc)
        source = _source(loc[:-1] if first["type"] == "missing" else loc, env, in_file, path)
        what = "unknown setting" if first["type"] == "extra_forbidden" else first["msg"]
        raise ConfigError(f"{key}: {what} (from {source})", hint="correct it or remove it") from error
    for principal in settings.principals:
        if not is_name(principal) or len(principal) > MAX_PRINCIPAL:
            hint = f"use [A-Za-z0-9._-], {MAX_PRINCIPAL} at most"
            raise ConfigError(f"principals: {principal!r} is not a name", hint=hint)
    return settings


def _source(loc: tuple[int | str, ...], env: dict[str, str], in_file: dict[str, Any], path: Path | None) -> str:
    """Where a wrong value came from: the variable that sets it (or a part of the tree around it), else the file."""
    names = [str(part).upper() for part in loc if isinstance(part, str)]
    for length in range(len(names), 0, -1):
        name = "CAPATAZ_" + "__".join(names[:length])
        if name in env:
            return f"the environment: {name}"
    if loc == ("redis", "url") and env.get("REDIS_URL"):
        return "the environment: REDIS_URL"
    return str(path) if path and _in_file(in_file, loc) else "the environment"


def _in_file(values: dict[str, Any], loc: tuple[int | str, ...]) -> bool:
    node: Any = values
    for part in loc:
        in_list = isinstance(node, list) and isinstance(part, int) and part < len(node)
        if not in_list and not (isinstance(node, dict) and part in node):
            return False
        node = node[part]
    return True
