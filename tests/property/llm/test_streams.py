"""Ten thousand streams, each of another server's habits and cut by the network at other places: the same message."""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random

import pytest

from shared.llm.errors import LlmError
from shared.llm.model import Completion, ThinkingBlock
from tests.property.llm import generated
from tests.property.llm.generated import Wanted
from tests.unit.llm.support import decode, ready

pytestmark = pytest.mark.property

STREAMS = 10_000 if os.environ.get("CI") else 2_000
"""Of both dialects together; continuous integration takes all of them."""
BATCHES = 10
WRITERS: dict[str, Callable[[Random, Wanted], bytes]] = {
    "openai": generated.openai,
    "anthropic": generated.anthropic,
}


def check(dialect: str, seed: int) -> None:
    rng = Random(f"{dialect} {seed}")
    wanted = generated.message(rng)
    raw = WRITERS[dialect](rng, wanted)
    items = decode(dialect, generated.cut(rng, raw))
    last = items[-1]
    assert isinstance(last, Completion)
    assert last.message.text == wanted.text
    assert "".join(b.text for b in last.message.blocks if isinstance(b, ThinkingBlock)) == wanted.thinking
    assert [(c.provider_id, c.name, c.arguments) for c in last.message.calls] == wanted.calls
    assert last.broken == ()
    assert last.finish is wanted.finish
    assert last.usage == wanted.usage
    announced = sorted(ready(items), key=lambda call: call.id)
    assert announced == list(last.message.calls), "each call is announced once, and as it is in the end"
    assert Completion.model_validate_json(last.model_dump_json()) == last
    cut_short(dialect, raw[: rng.randrange(len(raw))], last)


def cut_short(dialect: str, raw: bytes, whole: Completion) -> None:
    """A stream that ends early is an error, or was complete already: never half an answer, never half a call."""
    try:
        last = decode(dialect, [raw])[-1]
    except LlmError:
        return
    assert isinstance(last, Completion)
    assert last.message == whole.message


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("dialect", WRITERS)
def test_generated_streams(dialect: str, batch: int) -> None:
    count = STREAMS // BATCHES // len(WRITERS)
    for seed in range(batch * count, (batch + 1) * count):
        try:
            check(dialect, seed)
        except (AssertionError, LlmError) as error:
            error.add_note(f"reproduce with check({dialect!r}, {seed})")
            raise
