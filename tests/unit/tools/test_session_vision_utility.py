from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shared.contract import Catalogue
from shared.errors import ModelError
from workers.tools.ranking import rank_tools


def test_the_todo_list_is_replaced_and_read(bench: Any) -> None:
    bench.run("todo_write", items=[{"text": "leer", "state": "done"}, {"text": "escribir"}])
    assert bench.run("todo_read").seen == "[x] leer\n[ ] escribir"
    with pytest.raises(ModelError, match="items"):
        bench.run("todo_write", items=[{"text": "a", "state": "maybe"}])


def test_facts_are_set_by_comparison(bench: Any) -> None:
    assert bench.run("fact_set", name="budget", value=500, expected_version=0).value["version"] == 1
    assert bench.run("fact_set", name="budget", value=600, expected_version=1, node="r1.0.0.1").value["version"] == 2
    with pytest.raises(ModelError, match="version 1 was expected, it has version 2: 600"):
        bench.run("fact_set", name="budget", value=700, expected_version=1, node="r1.0.0.2")
    assert bench.run("fact_get", name="budget").value == {"value": 600, "version": 2}
    assert bench.run("fact_get").seen == "budget (version 2): 600"
    with pytest.raises(ModelError, match="known: budget"):
        bench.run("fact_get", name="other")


def test_a_second_attempt_of_a_node_sets_its_fact_once(bench: Any) -> None:
    for _ in range(2):
        assert bench.run("fact_set", name="a", value=[1], expected_version=0).value["version"] == 1


def test_find_tools_ranks_in_both_languages(bench: Any) -> None:
    bench.state.offered = bench.registry.catalogue(bench.settings)
    assert bench.run("find_tools", query="avísame mañana").value["tools"][0] == "reminder_add"
    assert bench.run("find_tools", query="delete a note").value["tools"][0] == "note_delete"
    assert bench.run("find_tools", query="leer un fichero").value["tools"][0] == "file_read"
    assert "image_describe" in bench.run("find_tools", query="what is in this photo").value["tools"]
    nothing = bench.run("find_tools", query="xyzzy")
    assert nothing.value["tools"] == []
    assert "notes (Notes)" in nothing.seen


def test_ranking_an_empty_catalogue() -> None:
    assert rank_tools("anything", Catalogue()) == ()


def test_an_artifact_is_paged_and_searched_by_its_owner_only(bench: Any) -> None:
    text = "".join(f"line {n} with áccents\n" for n in range(1000))
    handle = asyncio.run(bench.services.artifacts.put("ana", text.encode(), "text/plain"))
    page = bench.run("read_artifact", handle=handle, offset=10, limit=20)
    assert page.value == {"text": text[10:30], "offset": 10, "total": len(text), "more": True}
    hits = bench.run("read_artifact", handle=handle, search="LINE 77 ").value["matches"]
    assert [hit["text"] for hit in hits] == ["line 77 with áccents"]
    assert text[hits[0]["offset"] :].startswith("line 77 ")
    assert bench.run("read_artifact", handle=handle, search="line", limit=500).seen.endswith("[more lines match]")
    with pytest.raises(ModelError):
        bench.run("read_artifact", principal="eva", handle=handle)


def test_time_in_zones_and_cities(bench: Any) -> None:
    assert bench.run("time_now").seen == "Tuesday 2026-11-10 15:00:00 in Europe/Madrid (UTC+01:00)"
    for name in ("Asia/Tokyo", "tokio", "TOKYO", "asia/tokyo"):
        assert bench.run("time_now", timezone=name).value["iso"] == "2026-11-10T23:00:00+09:00", name
    assert bench.run("time_now", timezone="buenos aires").value["time"] == "11:00:00"
    for bad in ("Europe/Madird", "../../etc/passwd", "x" * 500):
        with pytest.raises(ModelError, match="no time zone"):
            bench.run("time_now", timezone=bad)
    with pytest.raises(ModelError, match="Europe/Madrid"):
        bench.run("time_now", timezone="Europe/Madird")


def test_calculate_keeps_numbers_that_json_can_hold(bench: Any) -> None:
    assert bench.run("calculate", expression="17*23").seen == "17*23 = 391"
    assert bench.run("calculate", expression="17*23").value["result"] == 391
    assert bench.run("calculate", expression="2^64").value["result"] == "18446744073709551616"
    assert bench.run("calculate", expression="1/3").seen == "1/3 ≈ 0.333333333333333"
    assert bench.run("calculate", expression="10^400/3").value["result"].startswith("3.33333333333333e")
    with pytest.raises(ModelError, match="division by zero"):
        bench.run("calculate", expression="1/0")
