"""What a person reads of a mail's body: HTML as text, and what is new in it below and above the quotes. Pure."""

from __future__ import annotations

import re
from typing import Any

from shared.compress import clean_text


def clean_lines(text: str) -> str:
    """Text without carriage returns, blanks at line ends, and more than one blank line in a row."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "").split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


# HTML, as mail programs write it: tables for layout, and blockquotes for what is answered.

_SILENT = frozenset({"script", "style", "head", "title", "template", "noscript", "object", "svg"})
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote center dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr "
        "li main nav ol p pre section table tbody tfoot thead tr ul",
    )
)
_LINK_CHARS = 300
_TRACKING = re.compile(
    r"(?:utm_\w+|mc_[ce]id|fbclid|gclid|dclid|msclkid|mkt_tok|_hs(?:enc|mi)|igshid|vero_(?:id|conv)|oly_\w+_id)=", re.I
)


def html_text(html: str) -> str:
    """What a person reads of a mail in HTML: lines, `- ` before items, `> ` before quotes, addresses behind links."""
    from lxml import etree  # type: ignore[import-untyped]
    from lxml import html as lxml_html

    try:
        parser = lxml_html.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
        tree: Any = lxml_html.document_fromstring(html.replace("\0", "").encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, ValueError):
        return ""
    out: list[str] = []
    quotes = silent = 0

    def line_break() -> None:
        out.append("\n" + "> " * quotes)

    for event, node in etree.iterwalk(tree, events=("start", "end")):
        tag = node.tag if isinstance(node.tag, str) else ""
        hidden = tag in _SILENT or not tag
        if event == "start":
            silent += hidden
            quotes += tag == "blockquote"
            if tag in _BLOCKS or tag == "br":
                line_break()
            if tag == "li":
                out.append("- ")
            text = node.text if not silent else ""
        else:
            silent -= hidden
            quotes -= tag == "blockquote"
            if tag == "a" and not silent:
                out.append(_link(node))
            if tag in ("td", "th"):
                out.append(" ")
            if tag in _BLOCKS:
                line_break()
            text = node.tail if not silent else ""
        if text:
            out.append(re.sub(r"\s+", " ", text))
    return clean_text("".join(out))


def _link(node: Any) -> str:
    href = str(node.get("href") or "").strip()
    said = " ".join("".join(node.itertext()).split())
    if not href.startswith(("http://", "https://")) or href.rstrip("/") == said.rstrip("/") or not said:
        return ""
    return f" ({untracked(href)[:_LINK_CHARS]})"


def untracked(url: str) -> str:
    """An address without what only tells its sender who came from where."""
    head, mark, fragment = url.partition("#")
    path, asked, query = head.partition("?")
    kept = [one for one in query.split("&") if one and not _TRACKING.match(one)]
    return path + (asked + "&".join(kept) if kept else "") + mark + fragment


# What a mail says that the mails before it have not said.

_SIGNATURE = re.compile(r"--\s*|_{5,}\s*|(?:sent from|enviado desde) (?:my|mi) .{2,60}", re.I)
_ATTRIBUTION = re.compile(
    r"(?:on|el|le|am|em|il|op)\b.{4,300}\b(?:wrote|escribió|escribio|escribiu|a écrit|schrieb|ha scritto|schreef)\s*:",
    re.I | re.S,
)
_ORIGINAL = re.compile(r"-{2,}\s*(?:original message|mensaje original|message d'origine)\s*-{2,}", re.I)
_OUTLOOK = (
    re.compile(r"\*?(?:from|de|von)\*?:\s", re.I),
    re.compile(r"\*?(?:sent|enviado(?: el)?|date|fecha)\*?:", re.I),
)
_FORWARD = re.compile(r"(?:fwd?|rv|reenv|tr|wg)\s*:", re.I)
_SHORT_QUOTE = 4


def fresh(text: str, subject: str = "") -> tuple[str, int]:
    """A mail's text without quoted history and signature, and how many lines were left out.

    A mail that passes another on keeps it. Where answers stand between quotes, short quotes stay.
    """
    lines = text.split("\n")
    end = _history(lines, forwarded=bool(_FORWARD.match(subject.strip())))
    kept = lines[:end]
    while kept and (not kept[-1].strip() or kept[-1].startswith(">")):
        kept.pop()
    for at, line in enumerate(kept):
        if _SIGNATURE.fullmatch(line.strip()) and (at > 0 or len(kept) == 1) and not _is_rule(kept, at):
            kept = kept[:at]
            break
    kept = _short_quotes(kept)
    while kept and not kept[-1].strip():
        kept.pop()
    if not any(line.strip() for line in kept):  # nothing but history: better that than nothing
        return text, 0
    return "\n".join(kept), sum(1 for line in lines if line.strip()) - sum(1 for line in kept if line.strip())


def _is_rule(lines: list[str], at: int) -> bool:
    """Underscores with a lot below are a rule between two parts, no signature."""
    return lines[at].startswith("_") and len(lines) - at > 12


def _history(lines: list[str], *, forwarded: bool) -> int:
    """The line at which what was said before begins, else the number of lines."""
    if forwarded:
        return len(lines)
    for at, line in enumerate(lines):
        stripped = line.strip()
        if not stripped:
            continue
        if _ORIGINAL.fullmatch(stripped):
            return at
        if _OUTLOOK[0].match(stripped) and any(_OUTLOOK[1].match(near.strip()) for near in lines[at + 1 : at + 3]):
            return at
        # "On Monday, somebody wrote:", often broken over two or three lines; answers between quotes come after it.
        for length in (1, 2, 3):
            if _ATTRIBUTION.fullmatch(" ".join(part.strip() for part in lines[at : at + length])):
                rest = [after for after in lines[at + length :] if after.strip()]
                if all(after.startswith(">") for after in rest) or not any(after.startswith(">") for after in rest):
                    return at
                break
    return len(lines)


def _short_quotes(lines: list[str]) -> list[str]:
    out: list[str] = []
    block: list[str] = []

    def flush() -> None:
        if len(block) > _SHORT_QUOTE + 1:
            out.extend(block[:_SHORT_QUOTE])
            out.append(f"> [{len(block) - _SHORT_QUOTE} more quoted lines]")
        else:
            out.extend(block)
        block.clear()

    for line in lines:
        if line.startswith(">"):
            block.append(line)
        else:
            flush()
            out.append(line)
    flush()
    return out
