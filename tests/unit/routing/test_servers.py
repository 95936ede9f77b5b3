"""Large catalogues: hundreds of tools in a few groups are ranked down to the few that a message needs."""

from __future__ import annotations

import pytest

from coordinator.routing.router import Router
from shared.encoder import PackagedEncoder
from tests.unit.routing.servers import REQUESTS, servers


@pytest.fixture(scope="module")
def router(tmp_path_factory: pytest.TempPathFactory) -> Router:
    return Router(servers(), PackagedEncoder(), tmp_path_factory.mktemp("cache"))


def test_the_right_tool_of_504_is_among_the_24_offered(router: Router) -> None:
    missed = []
    for text, name in REQUESTS:
        decision = router.route(text)
        assert len(decision.tools) <= 24
        assert "find_tools" in decision.tools
        if name not in decision.tools:
            missed.append((text, name, decision.layer))
    assert len(missed) <= 0.05 * len(REQUESTS), missed


def test_words_alone_find_most(router: Router) -> None:
    plain = Router(servers())
    found = sum(name in plain.route(text).tools for text, name in REQUESTS)
    assert found >= 0.7 * len(REQUESTS)


def test_naming_a_server_keeps_to_its_tools(router: Router) -> None:
    decision = router.route("search spotify for albums by Rosalía")
    assert decision.layer == "keywords"
    assert decision.partial == ("spotify",)
    assert all(tool.startswith("spotify_") for tool in decision.tools if tool != "find_tools")
