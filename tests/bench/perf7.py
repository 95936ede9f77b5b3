"""What routing costs: over 1,000 tools by words alone, and with the packaged encoder.

A catalogue as that of many servers: 20 groups of 50 tools, each group with a few keywords, no examples. Messages whose
keywords name a group, messages that say nothing certain, so that all tools are ranked, and messages that ask the
encoder are measured apart; each decision is a whole one, tools and tokens saved included. The floors are taken in turn
with the decisions, of the same messages: reading the words (fold, tokens, stems and one look-up each in a dict), and
the encoder's own call.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from coordinator.routing.router import Router
from coordinator.routing.text import stems
from shared.contract import Catalogue, Effect, GroupSpec, ToolSpec
from shared.encoder import PackagedEncoder
from tests.bench.report import Stopwatch, line, median_ms, p95_ms

ROUNDS = 40
GROUPS = {
    "invoices": ("invoice", "factura"),
    "branches": ("branch", "rama"),
    "tickets": ("ticket", "incidencia"),
    "customers": ("customer", "cliente"),
    "photos": ("photo", "foto"),
    "payments": ("payment", "pago"),
    "servers": ("server", "servidor"),
    "bookings": ("booking", "reserva"),
    "parcels": ("parcel", "paquete"),
    "meetings": ("meeting", "reunión"),
    "contracts": ("contract", "contrato"),
    "recipes": ("recipe", "receta"),
    "songs": ("song", "canción"),
    "sensors": ("sensor", "sensor"),
    "lamps": ("lamp", "lámpara"),
    "vehicles": ("vehicle", "vehículo"),
    "trips": ("trip", "viaje"),
    "patients": ("patient", "paciente"),
    "lessons": ("lesson", "clase"),
    "orders": ("order", "pedido"),
}
VERBS = ("create", "delete", "list", "archive", "export", "merge", "share", "lock", "rename", "approve")
SCOPES = ("of a project", "of a team", "of the last month", "by name", "in bulk")

NAMED = (
    "lock the invoice of the harbour project",
    "borra la factura del mes pasado",
    "which customer wrote to us most often last year, and about what",
    "enséñame las fotos del equipo de ventas",
    "rename the branch before somebody merges it",
    "aprueba el pago cuando esté todo revisado",
)
OPEN = (
    "give everybody in the sales team the right to see it",
    "junta los dos que están repetidos y avísame cuando acabes",
    "put away everything older than six weeks",
    "quién tocó esto por última vez y por qué",
    "make one file of all that and send it to the office in the north",
    "deja que lo vean los de contabilidad hasta el viernes",
)


def catalogue() -> Catalogue:
    """1,000 tools."""
    tools = [
        ToolSpec(
            name=f"{group}_{verb}_{at}",
            group=group,
            description=f"{verb.title()} {group} {scope}. Returns what changed, when, and who asked for it.",
            parameters={"type": "object", "properties": {"id": {"type": "string"}}},
            effect=Effect.READ,
        )
        for group in GROUPS
        for verb in VERBS
        for at, scope in enumerate(SCOPES)
    ]
    groups = [
        GroupSpec(name=name, title=name.title(), keywords={"en": (english,), "es": (spanish,)})
        for name, (english, spanish) in GROUPS.items()
    ]
    return Catalogue(tools=tuple(tools), groups=tuple(groups))


def _timed(texts: Sequence[str], *works: Callable[[str], object]) -> list[list[float]]:
    """The seconds that each of `works` took for each text, in turn, over all rounds but a first one."""
    taken: list[list[float]] = [[] for _ in works]
    for number in range(ROUNDS + 1):
        for text in texts:
            for at, work in enumerate(works):
                watch = Stopwatch()
                work(text)
                if number:
                    taken[at].append(watch.s)
    return taken


def _us(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1e6


def measure() -> None:
    """Prints one line: microseconds by words alone, milliseconds with the encoder, seconds to learn the catalogue."""
    offered = catalogue()
    words = Router(offered)
    known = {stem: 1 for tool in offered.tools for stem in stems(tool.description)}

    def read(text: str) -> int:
        return sum(known.get(stem, 0) for stem in stems(text))

    for text, layer in [*((text, "keywords") for text in NAMED), *((text, "all") for text in OPEN)]:
        if (decision := words.route_fast(text)) is None or decision.layer != layer:
            raise RuntimeError(f"the message {text!r} should have come to the layer {layer}: {decision}")
    keyword, floor = _timed(NAMED, words.route_fast, read)
    rank, rank_floor = _timed(OPEN, words.route_fast, read)
    encoder = PackagedEncoder()
    router, built = Router(offered, encoder), Stopwatch()
    router.prepare()
    build_s = built.s
    meant = [text for text in OPEN if router.route_fast(text) is None]
    encode, alone = _timed(meant, router.route, lambda text: encoder.encode([text]))
    line(
        "PERF7",
        tools=len(offered.tools),
        keyword_us=_us(keyword),
        keyword_p95_us=p95_ms(keyword) * 1000,
        rank_us=_us(rank),
        rank_p95_us=p95_ms(rank) * 1000,
        floor_us=_us([*floor, *rank_floor]),
        encode_ms=median_ms(encode),
        encode_p95_ms=p95_ms(encode),
        floor_ms=median_ms(alone),
        build_s=build_s,
    )
