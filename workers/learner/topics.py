"""What can be no rule, whoever says it: permission, approval, secrets, instructions, safeguards. Pure."""

from __future__ import annotations

import re

from shared.resemblance import fold

_FORBIDDEN_TOPICS = (
    r"permi(?:ssions?|t(?:ted|s)?|sos?|tid[oa]s?|te|tir)|approv\w*|aprob\w*|aprueb\w*|authori[sz]\w*|autori[sz]\w*",
    r"consent\w*|privileges?|privilegios?|sudo|as root|root (?:user|access)|bypass\w*|sandbox\w*",
    r"admin(?:istra(?:tor|dor)\w*)?",
    r"disable security|green light|luz verde|go[- ]aheads?|visto bueno|beneplacito|rubber[- ]stamp\w*",
    r"passwords?|passwd|passphrases?|passcodes?|contrasenas?|secrets?|secret[oa]s?|credentials?|credencial(?:es)?",
    r"access tokens?|tokens?|api[ _-]?keys?|private keys?|claves? (?:api|privadas?|de \w+)|(?:su|tu|mi|la) clave",
    r"pin|pin codes?|codigo pin|cvv|otp|2fa|logins?|iban|credit cards?|tarjetas? de credito",
    r"deny rules?|allow[ -]?list\w*|white[ -]?list\w*|always allow|permite siempre",
    r"(?:without|no need (?:to|for)|not? need to|skip(?:ping)?|instead of|rather than|stop|avoid) "
    r"(?:\w+ ){0,4}?(?:asking|ask|confirm\w*|check(?:ing)? (?:with|back)|yes|prompts?|dialogs?)",
    r"sin (?:\w+ ){0,3}?(?:preguntar\w*|confirma\w*|avisar|consultar\w*|esperar|un si|pedir\w*)",
    r"no (?:hace falta|es necesario|necesitas?|hay que) (?:\w+ ){0,2}?"
    r"(?:preguntar\w*|confirma\w*|avisar|consultar\w*|pedir\w*)",
    r"(?:do not|don't|never|dont|no longer) (?:ask|confirm|check with|wait for|warn)",
    r"(?:no|nunca) (?:me |le |les )?(?:preguntes|pidas|confirmes|avises|consultes|esperes)",
    r"(?:ignor\w*|disregard\w*|forget|overrid\w*|olvid\w*|salta\w*) "
    r"(?:all |any |the |your |these |las |los |todas? |tus |sus )*"
    r"(?:previous|prior|earlier|above|system|safety|security|instructions?|instruccion(?:es)?|reglas|rules|limit\w*|"
    r"guard\w*|seguridad|normas)",
    r"(?:treat|trata|considera|consider|count|cuenta) (?:\w+ ){1,5}?"
    r"(?:agreed|orders?|ordenes|instruc\w*|trusted|de confianza)",
)
_FORBIDDEN = re.compile(rf"\b(?:{'|'.join(_FORBIDDEN_TOPICS)})\b")
_SECRET = re.compile(r"(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}|\bsk-\w+|\bgh[pousr]_\w+|\bAKIA\w+")
_FLAG = re.compile(r"(?:^|\s)--?(?:force|no-verify|yes|y|f|rf|no-check|insecure|dangerously[\w-]*)\b")


def topic(text: str) -> str:
    """Why a text can be no rule, whoever it is from; "" when it may be one."""
    folded = " ".join(fold(text).replace("’", "'").split())
    if _FORBIDDEN.search(folded) or _FORBIDDEN.search(_spelled(folded)):
        return "it is about permission, approval, secrets or instructions"
    if _SECRET.search(text):
        return "it holds what may be a secret"
    return "it switches a safeguard off" if _FLAG.search(text) else ""


def _spelled(folded: str) -> str:
    """Words that were written letter by letter, put together."""
    return re.sub(r"(?<=\b\w)[ .\-_*](?=\w\b)", "", folded)
