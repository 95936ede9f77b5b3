"""Elements of XML and HTML from texts that nobody vouches for. Pure."""

from __future__ import annotations

import html

from ops.trace.words import plain


def escape(text: str) -> str:
    """`text` for content and attribute values of XML 1.0 and HTML."""
    return html.escape(plain(text), quote=True)


def element(name: str, *content: str, **attributes: str | float) -> str:
    """An element around content that is markup already. Attributes are escaped; `class_` and `x_y` become `class`
    and `x-y`, numbers are cut to two digits."""
    parts = [name]
    for key, value in attributes.items():
        text = number(value) if isinstance(value, int | float) else escape(value)
        parts.append(f'{key.rstrip("_").replace("_", "-")}="{text}"')
    head = " ".join(parts)
    return f"<{head}>{''.join(content)}</{name}>"


def number(value: float) -> str:
    """A coordinate with two digits at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
