"""`capataz trace`: the time line of a run, on the terminal, as a picture, as a page, or as JSON."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.common import client, fail, print_json
from ops.exits import Exit

if TYPE_CHECKING:
    from ops.trace.values import Timeline


class _Form(StrEnum):
    TEXT = "text"
    SVG = "svg"
    HTML = "html"
    JSON = "json"


def trace(
    run: Annotated[str, typer.Argument(help="The run, as `capataz runs` lists it.")],
    svg: Annotated[bool, typer.Option("--svg", help="A picture.")] = False,
    html: Annotated[bool, typer.Option("--html", help="A page: the picture, the answer, tables.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="The time line as JSON.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file; its ending picks the form.")
    ] = None,
    session: Annotated[str | None, typer.Option("--session", "-s", help="The session of an older run.")] = None,
) -> None:
    """Show when a run's model calls and nodes waited and ran, and its critical path."""
    form = _form(svg, html, json_, output)
    with client() as found:
        from ops.trace.source import read

        timeline = read(found, run, session)
    if output is None and form is _Form.TEXT:
        from rich.console import Console

        from ops.trace.text import render

        render(timeline, Console())
    elif output is None and form is _Form.JSON:
        print_json(timeline.model_dump(mode="json"))
    else:
        _write(_document(timeline, form), output)


def _form(svg: bool, html: bool, json_: bool, output: Path | None) -> _Form:
    chosen = [form for form, on in ((_Form.SVG, svg), (_Form.HTML, html), (_Form.JSON, json_)) if on]
    if len(chosen) > 1:
        fail("choose one of --svg, --html and --json", Exit.USAGE)
    if chosen:
        return chosen[0]
    ending = output.suffix.lstrip(".").lower() if output else ""
    return {"svg": _Form.SVG, "html": _Form.HTML, "htm": _Form.HTML, "json": _Form.JSON}.get(ending, _Form.TEXT)


def _document(timeline: Timeline, form: _Form) -> str:
    if form is _Form.SVG:
        from ops.trace.svg import svg

        return svg(timeline) + "\n"
    if form is _Form.HTML:
        from ops.trace.html import page

        return page(timeline)
    if form is _Form.JSON:
        return timeline.model_dump_json(indent=2) + "\n"
    from io import StringIO

    from rich.console import Console

    from ops.trace.text import render

    out = StringIO()
    render(timeline, Console(file=out, width=140))
    return out.getvalue()


def _write(document: str, output: Path | None) -> None:
    if output is None:
        typer.echo(document, nl=False)
        return
    try:
        output.write_text(document, "utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}")
    typer.echo(f"written to {output}", err=True)
