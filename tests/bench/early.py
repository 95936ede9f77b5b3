"""What early start saves: a turn whose first call is the longest, from a model that streams 60 tokens a second.

Two systems run side by side, one with early start and one without, and take turns. The calls are `read` and
independent; the first takes a second, the others 50 ms. Both numbers are whole turns, from submission to answer.
"""

from __future__ import annotations

from shared.client import Client
from tests.bench.report import Stopwatch, line, median_ms
from tests.bench.turns import ask, call, script, system, tokens
from tests.support.model_server import ModelServer

TOKENS_PER_S = 60
CHARS_PER_TOKEN = 4
ROUNDS = 4
CALLS = [call("bench_sleep", seconds=1.0, tag="the longest call is the first one that the model writes")] + [
    call("bench_sleep", seconds=0.05, tag=f"call number {n}, about as long as arguments tend to be")
    for n in range(2, 6)
]


def _turn(client: Client, session: str) -> float:
    watch = Stopwatch()
    ask(client, session, nodes=len(CALLS))
    return watch.s


def measure() -> None:
    """Prints one line."""
    stream_ms = tokens(CALLS) / TOKENS_PER_S * 1000
    rules = script(CALLS, first_token_ms=40, stream_ms=stream_ms, delta_chars=CHARS_PER_TOKEN)
    with (
        ModelServer(rules=rules) as model,
        system(model.url, COORDINATOR__EARLY_START="true") as with_it,
        system(model.url, COORDINATOR__EARLY_START="false") as without,
    ):
        on, off = Client.connect(with_it.redis_url), Client.connect(without.redis_url)
        seconds: dict[str, list[float]] = {"on": [], "off": []}
        for number in range(ROUNDS + 1):
            for name, client in (("on", on), ("off", off)):
                taken = _turn(client, f"early-{number}")
                if number:  # the first of each only warms up
                    seconds[name].append(taken)
    off_ms, on_ms = median_ms(seconds["off"]), median_ms(seconds["on"])
    line("EARLY", off_ms=off_ms, on_ms=on_ms, saved_ms=off_ms - on_ms, tokens=tokens(CALLS), stream_ms=stream_ms)
