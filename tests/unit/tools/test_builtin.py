"""Every built-in tool can be dispatched, validates its arguments, and says enough for routing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from shared.contract import Effect
from shared.errors import ModelError
from shared.names import QUEUES
from shared.settings import Settings
from workers.declare import Registry

NAMES = {
    "note_save", "note_list", "note_search", "note_update", "note_delete",
    "file_read", "file_list", "file_grep", "file_glob", "file_write", "file_edit", "file_patch", "shell_run",
    "web_fetch", "web_search", "weather_get", "feeds_read", "news_headlines",
    "reddit_trending", "reddit_subreddit", "reddit_search", "time_now", "calculate",
    "todo_write", "todo_read", "fact_set", "fact_get", "find_tools", "read_artifact",
    "reminder_add", "reminder_list", "reminder_cancel", "reminder_change", "image_describe",
    "gym_log", "gym_history", "gym_exercises", "gym_stats", "gym_correct", "gym_delete",
    "gym_routine_save", "gym_routines", "gym_routine_delete", "convert_units", "date_calc",
    "image_read_text", "image_compare", "think_hard",
    "schedule_create", "schedule_list", "schedule_change", "schedule_delete", "schedule_run_now",
}  # fmt: skip

UNCONFIGURED = {
    "storage_upload", "storage_download", "storage_list", "storage_delete", "storage_share",
    "image_generate", "speech_to_text", "text_to_speech",
    "tv_list", "tv_status", "tv_keys", "tv_volume", "tv_source", "tv_power",
    "mail_list", "mail_search", "mail_folders", "mail_read", "mail_mark", "mail_send", "mail_reply",
    "calendar_today", "calendar_upcoming", "calendar_add", "calendar_change", "calendar_delete",
}  # fmt: skip
"""Tools that need a service which only the operator can name."""


def _registry() -> Registry:
    registry = Registry()
    registry.load_builtin()
    return registry


def _settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"workspace": {"dir": tmp_path}})


def test_the_catalogue_offers_exactly_the_tools_that_exist(tmp_path: Path) -> None:
    registry = _registry()
    catalogue = registry.catalogue(_settings(tmp_path))
    assert {spec.name for spec in catalogue.tools} == NAMES
    assert set(catalogue.missing) == UNCONFIGURED
    assert all(re.search(r"set \w+\.\w+|pip install", why) for why in catalogue.missing.values())
    for name in NAMES | UNCONFIGURED:
        tool = registry.get(name)
        assert tool is not None
        spec = tool.spec
        assert spec.queue in QUEUES
        with pytest.raises(ModelError, match="unknown argument `zzz`"):
            tool.validate({"zzz": 1})
        for required in spec.parameters.get("required", ()):
            with pytest.raises(ModelError, match=f"argument `{required}` is missing"):
                tool.validate({})


def test_files_are_missing_without_a_workspace(tmp_path: Path) -> None:
    catalogue = _registry().catalogue(_settings(tmp_path / "absent"))
    in_workspace = {name for name, tool in _registry().tools.items() if tool.spec.group in ("files", "shell")}
    assert set(catalogue.missing) - UNCONFIGURED == in_workspace
    assert "workspace.dir" in catalogue.missing["file_read"]


def test_images_need_a_model_that_can_look(tmp_path: Path) -> None:
    catalogue = _registry().catalogue(
        Settings.model_validate({"workspace": {"dir": tmp_path}, "models": {"tiers": {"fast": ("x/y",)}}})
    )
    looking = {"image_describe", "image_read_text", "image_compare"}
    assert set(catalogue.missing) - UNCONFIGURED == {*looking, "think_hard"}


def test_groups_speak_both_languages(tmp_path: Path) -> None:
    catalogue = _registry().catalogue(_settings(tmp_path))
    assert {group.name for group in catalogue.groups} == {spec.group for spec in catalogue.tools}
    seen: dict[str, str] = {}
    for group in catalogue.groups:
        for language in ("es", "en"):
            assert len(group.keywords[language]) >= 6, group.name
            assert len(group.examples[language]) >= 6, group.name
            for example in group.examples[language]:
                assert seen.setdefault(example, group.name) == group.name


def test_what_never_changes_anything_is_read() -> None:
    effects = {name: tool.spec.effect for name, tool in _registry().tools.items()}
    assert {name for name, effect in effects.items() if effect is Effect.WRITE} == {
        "file_write", "file_edit", "file_patch", "shell_run",
        "tv_keys", "tv_volume", "tv_power", "mail_send", "mail_reply", "schedule_run_now",
    }  # fmt: skip
    changing = {
        "note_save", "note_update", "note_delete", "todo_write", "fact_set", "reminder_cancel", "reminder_add",
        "reminder_change", "gym_log", "gym_correct", "gym_delete", "gym_routine_save", "gym_routine_delete",
        "storage_upload", "storage_download", "storage_delete", "storage_share",
        "image_generate", "text_to_speech", "tv_source",
        "mail_mark", "calendar_add", "calendar_change", "calendar_delete",
        "schedule_create", "schedule_change", "schedule_delete",
    }  # fmt: skip
    assert {n for n, e in effects.items() if e is Effect.IDEMPOTENT and ":" not in n} == changing


def test_internal_names_cannot_clash_with_a_models_names() -> None:
    internal = {name for name, tool in _registry().tools.items() if tool.internal}
    assert "learn:reflect" in internal
    assert all(":" in name for name in internal)
