"""What a person would read of an HTML page: title and main text. Pure; slow on large pages, so run it in a thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shared.compress import clean_text

_THIN = 120
"""Below this many characters the extraction probably missed the text, and all visible text is taken."""


@dataclass(frozen=True)
class Article:
    """A page's title and text, both possibly empty."""

    title: str
    text: str


def readable(html: str) -> Article:
    """Title and main text of a page; all visible text where no main text is found."""
    import trafilatura  # late: it costs half a second and much memory

    extracted: Any = trafilatura.bare_extraction(html, with_metadata=True, include_comments=False)
    text = clean_text(extracted.text or "") if extracted is not None else ""
    tree: Any = trafilatura.load_html(html)
    title = _title(tree) or (extracted.title if extracted is not None else "") or ""
    if len(text) < _THIN and tree is not None:
        text = max(text, _visible(tree), key=len)
    return Article(" ".join(title.split()), text)


def _title(tree: Any) -> str:
    found = tree.xpath("//head/title") if tree is not None else []
    return str(found[0].text_content()) if found else ""


def _visible(tree: Any) -> str:
    for node in tree.xpath("//script|//style|//noscript|//template|//head"):
        node.drop_tree()
    return clean_text("\n".join(tree.itertext()))
