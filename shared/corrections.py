"""Whether a message tells how things should be done: it corrects what was answered, or wishes for the future. Pure.

Cheap enough for every message, and written for English and Spanish; what it misses teaches nothing, what it finds in
error costs one look of the learner. It says nothing of what is wished.
"""

from __future__ import annotations

import re

from shared.resemblance import fold

_FILLERS = r"(?:(?:oh|well|hey|sorry|but|oye|pues|bueno|perdona|pero|hombre|a ver|eh|mm+)[,.!… ]+)*"
_POLITE_NO = re.compile(
    r"^no[,.! ]*(?:gracias|thanks|thank you|hace falta|need|te preocupes|worries|problem|pasa nada|no se|se|"
    r"i don't|idea)"
)
_PLAIN_NO = re.compile(rf"^{_FILLERS}(?:no|nope|nein|que no)(?:[,.;:!… ]|$)")
_WRONG = re.compile(
    r"\b(?:that(?:'s| is|s)? (?:not (?:it|right|what|how|correct|true)|wrong|incorrect)|(?:is|was|are|were) wrong|"
    r"you (?:got|have) (?:it|that|this) wrong|you(?:'re| are) (?:wrong|mistaken)|you (?:forgot|missed|ignored|misread)|"
    r"you (?:should|were supposed to|didn't|did not|haven't|have not|used|gave me|wrote|put)\b|"
    r"i (?:meant|said|asked|told you|already told|didn't (?:ask|want|mean)|did not (?:ask|want|mean)|wanted)\b|"
    r"it should (?:be|have)|should have been|not again|wrong (?:unit|format|language|date|day|time|name|way|order)|"
    r"(?:fix|correct|redo) (?:that|it|this)|too (?:long|short|formal|technical|vague|detailed)|"
    r"instead(?: of|\b)|rather than)"
)
_WRONG_ES = re.compile(
    r"\b(?:eso no (?:es|esta|era|vale)|esta mal|estaba mal|mal hecho|te (?:has )?equivoca\w*|es incorrecto|"
    r"incorrect[oa]s?|"
    r"no es (?:asi|eso|correcto|lo que|cierto|verdad)|no era (?:asi|eso|lo que)|asi no\b|"
    r"(?:me referia|queria decir|quise decir|te (?:dije|pedi|he dicho|he pedido|lo dije|tengo dicho))|"
    r"no te (?:pedi|he pedido|dije)|has (?:olvidado|puesto|usado|escrito|ignorado|confundido)|no has \w+|"
    r"te has (?:olvidado|saltado|dejado|comido)|olvidaste|deberian? (?:ser|haber|estar|llevar|tener|ir|decir)|"
    r"tenias? que (?:ser|haber|estar|\w+)|"
    r"(?:corrige|arregla|cambia|rehaz)(?:lo|la)?\b|demasiado \w+|otra vez mal|"
    r"en (?:vez|lugar) de|mejor (?:en|con|sin|asi|usa|pon|dame|di))"
)
_WISH = re.compile(
    r"\b(?:from now on|from here on|in (?:the )?future|next time|every time|each time|whenever|for me,? always|"
    r"always|never (?:again )?(?!mind)\w+|i (?:always|never|prefer|'d prefer|would prefer|'d rather|would rather|like|"
    r"hate|don't like|do not like|want (?:it|them|that|you|my|all|every|the)\b)|i'd (?:prefer|rather|like)|"
    r"please (?:always|never|don't|do not|stop|use|keep)|stop \w+ing|keep in mind|remember (?:that|to)|"
    r"as a rule|the rule is|my (?:preference|preferred))"
)
_WISH_ES = re.compile(
    r"\b(?:a partir de ahora|de ahora en adelante|en adelante|en el futuro|la proxima vez|las proximas veces|"
    r"cada vez que|siempre(?: que)?\b|nunca (?:mas )?\w+|jamas|(?:yo )?prefiero|preferiria|(?:no )?me gusta\w*|odio|"
    r"quiero (?:que|los?|las?|mis|todo\w*|siempre)\b|deja de \w+r\b|no (?:vuelvas a|quiero)|"
    r"(?:recuerda|acuerdate|ten en cuenta)(?: de)? que|por norma|como norma|la norma es|por defecto)"
)
_NO_WISH = re.compile(r"\b(?:as always|como siempre|de siempre|para siempre|nunca se sabe|never mind|por defecto\?)")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_SHORT = 400
_MOST = 4_000
"""Characters looked at: a pasted document is no correction, whatever stands in it."""


def corrects(text: str, answer: str = "") -> bool:
    """True if `text` says that `answer`, the one before it, was not as wished; without one nothing is corrected."""
    if not answer.strip():
        return False
    folded = _plain(text)
    if _PLAIN_NO.match(folded) and not _POLITE_NO.match(folded) and not answer.rstrip().endswith("?"):
        return True
    return bool(_WRONG.search(folded) or _WRONG_ES.search(folded))


def wishes(text: str) -> bool:
    """True if `text` says how things are to be done beyond this once."""
    folded = _NO_WISH.sub(" ", _plain(text))
    return bool(_WISH.search(folded) or _WISH_ES.search(folded))


def lesson(text: str, answer: str = "") -> str:
    """The part of a message that says how things are to be done: all of a short one, of a long one the sentences that
    say so. Empty if it says nothing of the kind. `answer` is the one before it."""
    own = own_words(text)
    if not (corrects(own, answer) or wishes(own)):
        return ""
    if len(own) <= _SHORT:
        return own.strip()
    said = (sentence.strip() for sentence in _SENTENCE_END.split(own[:_MOST]))
    return " ".join(one for one in said if one and (corrects(one, answer) or wishes(one)))[:_SHORT]


def own_words(text: str) -> str:
    """`text` without what is quoted in it: lines that begin with `>`, and blocks between fences."""
    kept, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith(">"):
            kept.append(line)
    return "\n".join(kept)


def _plain(text: str) -> str:
    folded = fold(own_words(text)[:_MOST]).replace("’", "'")
    return " ".join(folded.split()).lstrip("¡¿ ")
