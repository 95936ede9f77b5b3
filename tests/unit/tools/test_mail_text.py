"""What is read of mails as they come: charsets, headers, parts, HTML, quotes."""

from __future__ import annotations

import json
from email import policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.settings import Settings
from workers.declare import Registry
from workers.tools.mail import without_history
from workers.tools.mail_body import fresh, html_text, untracked
from workers.tools.mail_box import fetched
from workers.tools.mail_text import Address, decode, decode_header, parse


def mail(headers: str, body: bytes = b"x") -> bytes:
    return headers.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        ("año".encode(), "utf-8", "año"),
        ("año".encode(), "iso-8859-1", "año"),  # declared wrongly
        ("año".encode("cp1252"), None, "año"),
        ("año".encode("cp1252"), "utf-8", "a\ufffdo"),
        ("“sí” €".encode("cp1252"), "iso-8859-1", "“sí” €"),
        ("año €".encode("iso-8859-15"), "iso-8859-15", "año €"),
        ("日本".encode("iso-2022-jp"), "iso-2022-jp", "日本"),
        ("中文㐀".encode("gb18030"), "gb2312", "中文㐀"),
        ("мир".encode("koi8-r"), "KOI8-R", "мир"),
        (b"+AGEA8Q-o", "utf-7", "año"),
        ("año".encode("cp1252"), "windows-1252http-equiv", "año"),
        ("año".encode("cp1252"), "rot13", "año"),
        (b"plain", "no-such-charset", "plain"),
        (b"", None, ""),
    ],
)
def test_bytes_become_text_whatever_is_declared(data: bytes, charset: str | None, text: str) -> None:
    assert decode(data, charset) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain", "plain"),
        ("=?utf-8?Q?a=C3=B1o?=", "año"),
        ("=?UTF-8?B?YcOx?= =?UTF-8?B?bw==?=", "año"),
        ("=?utf-8?B?YcM=?=\r\n =?utf-8?B?sW8=?=", "año"),  # a character cut in two
        ("=?iso-8859-1?q?a=F1o_nuevo?= y =?utf-8?q?=C3=B1?=", "año nuevo y ñ"),
        ("=?utf-8*es?q?s=C3=AD?=", "sí"),
        ("=?x-none?q?a=F1o?=", "año"),
        ("=?utf-8?b?!!!?=", "!!!"),
        ("a\udcc3\udcb1o", "año"),
        ("a\udcf1o", "año"),
        ("one\r\n two", "one two"),
        ("=?utf-8?q?a=0D=0ABcc:_x?=", "a Bcc: x"),
    ],
)
def test_headers_are_decoded_onto_one_line(raw: str, text: str) -> None:
    assert decode_header(raw) == text


def test_addresses_keep_their_commas_and_names() -> None:
    read = parse(
        mail('From: =?utf-8?q?Pe=C3=B1a=2C_Ana?= <ana@example.org>\nTo: "Ruiz, Luis" <l@example.org>, x@y.example')
    )
    assert read.sender == (Address("Peña, Ana", "ana@example.org"),)
    assert read.to == (Address("Ruiz, Luis", "l@example.org"), Address("", "x@y.example"))
    assert str(read.to[1]) == "x@y.example"


def test_thread_ids_are_found_and_nothing_else() -> None:
    read = parse(mail("Message-ID: <a@b> junk\nReferences: <1@b>\n\t<2@b> garbage <not an id>\nDate: nonsense"))
    assert (read.message_id, read.references, read.date) == ("<a@b>", ("<1@b>", "<2@b>"), "")
    assert parse(mail("In-Reply-To: <9@b> (by Ana)")).references == ("<9@b>",)


def test_of_alternatives_the_plain_one_is_read_unless_it_is_empty() -> None:
    for plain, expected in (("texto", "texto"), ("  \n", "desde html")):
        both = EmailMessage(policy=policy.SMTP)
        both.set_content(plain)
        both.add_alternative("<p>desde <b>html</b></p>", subtype="html")
        both.add_attachment(b"\x00\x01", maintype="application", subtype="octet-stream", filename="a/b\\c.bin")
        read = parse(bytes(both))
        assert read.text == expected
        assert [(one.name, one.data) for one in read.attachments] == [("a_b_c.bin", b"\x00\x01")]


def test_a_forwarded_mail_is_an_attachment_of_its_own() -> None:
    inner = EmailMessage(policy=policy.SMTP)
    inner["Subject"] = "Dentro"
    inner.set_content("inner text")
    outer = EmailMessage(policy=policy.SMTP)
    outer.set_content("outer text")
    outer.add_attachment(inner)
    read = parse(bytes(outer))
    assert read.text == "outer text"
    [one] = read.attachments
    assert (one.name, one.media_type) == ("Dentro.eml", "message/rfc822")
    assert b"inner text" in one.data


def test_a_pyramid_of_parts_is_no_trap() -> None:
    deep = b"".join(b'Content-Type: multipart/mixed; boundary="b%d"\r\n\r\n--b%d\r\n' % (n, n) for n in range(2000))
    read = parse(b"Subject: deep\r\n" + deep + b"Content-Type: text/plain\r\n\r\nhi")
    assert read.subject == "deep"


@pytest.mark.property
@given(st.binary(max_size=600) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_some_mail(data: bytes) -> None:
    for raw in (data, b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n" + data, b"Subject: " + data):
        read = parse(raw)
        json.dumps([read.subject, read.text, *map(str, read.sender)]).encode()
        read.text.encode(), read.subject.encode()
        assert "\n" not in read.subject


@pytest.mark.property
@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=60))
def test_a_header_that_was_written_is_read_again(text: str) -> None:
    out = EmailMessage(policy=policy.SMTP)
    out["Subject"] = text
    assert parse(bytes(out)).subject.split() == text.split()


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>uno</p><p>dos<br>tres</p>", "uno\n\ndos\ntres"),
        ("<style>x{}</style><script>y()</script><b>a</b> b<!-- c -->", "a b"),
        ('<a href="https://x.example/a?b">aquí</a> y <a href="https://y.example">https://y.example</a>',
         "aquí (https://x.example/a?b) y https://y.example"),
        ('<a href="javascript:alert(1)">no</a>', "no"),
        ("<ul><li>pan<li>leche</ul>", "- pan\n- leche"),
        ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
        ("<p>sí</p><blockquote>dijo<br>eso</blockquote>", "sí\n\n> dijo\n> eso"),
        ("", ""),
        ("\0<p>ñ &amp; &nbsp;x", "ñ & x"),
    ],
)  # fmt: skip
def test_html_reads_as_lines(html: str, text: str) -> None:
    lines = [line.rstrip("> ") if set(line) <= {">", " "} else line for line in html_text(html).split("\n")]
    assert [line for line in lines if line] == [line for line in text.split("\n") if line]


@pytest.mark.property
@given(st.text(max_size=400))
def test_any_html_has_some_text(html: str) -> None:
    assert isinstance(html_text(html), str)


ANSWERED = (
    "Sí, vale.\n\nEl mar, 10 nov 2026 a las 9:00, Marta (<marta@example.net>)\nescribió:\n\n> ¿Vienes?\n> Dime algo.\n"
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (ANSWERED, "Sí, vale."),
        ("Yes.\n\nOn Tue, Nov 10, 2026 at 9:00 AM Martha <m@x.example> wrote:\n> really?\n", "Yes."),
        ("Vale\n\n-----Mensaje original-----\nDe: Marta\nblah", "Vale"),
        ("Ok\n\nFrom: Martha\nSent: Tuesday\nTo: Ana\nSubject: x\n\nold text", "Ok"),
        ("Adiós\n-- \nAna Pérez\nTel. 123", "Adiós"),
        ("Voy\n\nEnviado desde mi iPhone", "Voy"),
        ("Hola\n\n> vieja\n> cita", "Hola"),
        ("On the way she wrote: hello\nand more", "On the way she wrote: hello\nand more"),
        ("> ¿uno?\nsí\n> ¿dos?\nno", "> ¿uno?\nsí\n> ¿dos?\nno"),
        ("> todo\n> es cita", "> todo\n> es cita"),
    ],
)
def test_what_is_new_is_kept(text: str, kept: str) -> None:
    assert fresh(text)[0] == kept


def test_a_mail_that_passes_another_on_keeps_it() -> None:
    text = "Para ti\n\nDe: Marta\nEnviado: martes\nAsunto: x\n\ncontenido"
    assert fresh(text, "RV: x") == (text, 0)
    assert fresh(text, "Re: x") == ("Para ti", 4)


def test_long_quotes_between_answers_are_shortened() -> None:
    quote = "\n".join(f"> línea {n}" for n in range(12))
    text, left_out = fresh(f"{quote}\nmi respuesta")
    assert text == "> línea 0\n> línea 1\n> línea 2\n> línea 3\n> [8 more quoted lines]\nmi respuesta"
    assert left_out == 7


@pytest.mark.property
@given(
    st.lists(
        st.sampled_from(["hola", "> cita", "-- ", "", "El lunes, Ana escribió:", "From: x", "Sent: y"]), max_size=12
    )
)
def test_shortening_adds_nothing_and_is_done_at_once(lines: list[str]) -> None:
    text, left_out = fresh("\n".join(lines))
    assert left_out >= 0
    assert set(text.split("\n")) <= {*lines, ""} or "more quoted lines" in text
    assert bool(text.strip()) == any(line.strip() for line in lines)


def test_only_the_text_of_a_mail_is_shortened_for_the_model() -> None:
    head = "Uid: 1\nSubject: Cena\nAttachment 1: a.pdf"
    short = without_history(f"{head}\n\n{ANSWERED}")
    assert short == (f"{head}\n\nSí, vale.\n[4 lines of quotes and signature left out; history=true shows them]")
    whole = f"{head}\n[with quoted history]\n\n{ANSWERED}"
    assert without_history(whole) == whole
    assert without_history("anything else") == "anything else"


def test_responses_of_servers_are_told_apart() -> None:
    items = [
        (b"3 (UID 7 FLAGS (\\Seen \\Flagged) RFC822.SIZE 900 BODY[] {2}", b"ab"),
        b")",
        b"9 (FLAGS (\\Deleted))",
        (b"4 (BODY[] {2}", b"cd"),
        b" UID 8 FLAGS () RFC822.SIZE 2)",
        None,
    ]
    found = list(fetched(items))
    assert [(one.uid, one.size, sorted(one.flags), one.data) for one in found] == [
        (7, 900, ["\\flagged", "\\seen"], b"ab"),
        (8, 2, [], b"cd"),
    ]
    assert list(fetched([None])) == []


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry()
    registry.load_builtin()
    monkeypatch.delenv("MAIL_PASSWORD", raising=False)

    def missing(**mail: object) -> dict[str, str]:
        found = registry.catalogue(Settings.model_validate({"workspace": {"dir": tmp_path}, "mail": mail})).missing
        return {name: why for name, why in found.items() if name.startswith("mail_")}

    none = missing()
    assert len(none) == 7
    assert "set mail.accounts.owner" in none["mail_list"]
    account = {"address": "a@example.org", "imap_host": "x.example"}
    assert "set the environment variable MAIL_PASSWORD" in missing(accounts={"owner": account})["mail_read"]
    monkeypatch.setenv("MAIL_PASSWORD", "x")
    assert set(missing(accounts={"owner": account})) == {"mail_send", "mail_reply"}
    assert missing(accounts={"owner": account | {"smtp_host": "y.example"}}) == {}
    monkeypatch.setattr("workers.tools.accounts.importlib.util.find_spec", lambda name: None)
    assert (
        missing(accounts={"owner": account})["mail_list"] == "a package is not installed: pip install 'capataz[mail]'"
    )


@pytest.mark.parametrize(
    ("url", "short"),
    [
        ("https://e.org/a?utm_source=x&id=7&utm_medium=mail#top", "https://e.org/a?id=7#top"),
        ("https://e.org/a?utm_source=x&fbclid=y", "https://e.org/a"),
        ("https://e.org/a?id=7&next=/b?c=1", "https://e.org/a?id=7&next=/b?c=1"),
        ("https://e.org/?", "https://e.org/"),
        ("https://e.org/#a?utm_x=1", "https://e.org/#a?utm_x=1"),
    ],
)
def test_links_without_what_only_counts_readers(url: str, short: str) -> None:
    assert untracked(url) == short
    assert html_text(f'<a href="{url.replace("&", "&amp;")}">here</a>') == f"here ({short})"
