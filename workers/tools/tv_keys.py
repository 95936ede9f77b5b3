"""Keys of a remote control: what people call them in Spanish and English, and what they are to each TV. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from shared.errors import ModelError
from workers.tools.timewords import fold

_CHANNEL = re.compile(r"(?:canal |channel |numero |number )?(\d{1,4})")
_LEADING = re.compile(r"(?:pulsa|aprieta|presiona|press|tecla|boton|key|button|la|el|the|a la|al)\s+")


@dataclass(frozen=True)
class Key:
    """One key. `cloud` is SmartThings' capability, command and arguments."""

    name: str
    samsung: tuple[str, ...]
    cloud: tuple[str, str, tuple[Any, ...]] | None


def _remote(name: str, code: str, key: str) -> Key:
    return Key(name, (code,), ("samsungvd.remoteControl", "send", (key, "PRESS_AND_RELEASED")))


_WORDS: Final[dict[Key, tuple[str, ...]]] = {
    _remote("up", "KEY_UP", "UP"): ("arriba", "sube", "flecha arriba"),
    _remote("down", "KEY_DOWN", "DOWN"): ("abajo", "baja", "flecha abajo"),
    _remote("left", "KEY_LEFT", "LEFT"): ("izquierda", "flecha izquierda"),
    _remote("right", "KEY_RIGHT", "RIGHT"): ("derecha", "flecha derecha"),
    _remote("ok", "KEY_ENTER", "OK"): ("enter", "intro", "aceptar", "acepta", "select", "selecciona", "seleccionar"),
    _remote("back", "KEY_RETURN", "BACK"): ("return", "volver", "vuelve", "atras", "go back", "hacia atras"),
    _remote("exit", "KEY_EXIT", "EXIT"): ("salir", "sal", "close", "cerrar"),
    _remote("home", "KEY_HOME", "HOME"): ("inicio", "casa", "smart hub", "hub"),
    _remote("menu", "KEY_MENU", "MENU"): ("ajustes", "settings"),
    _remote("source", "KEY_SOURCE", "SOURCE"): ("fuente", "fuentes", "input", "entrada"),
    _remote("play", "KEY_PLAY", "PLAY"): ("reproducir", "reproduce", "continuar", "sigue", "resume"),
    _remote("pause", "KEY_PAUSE", "PAUSE"): ("pausa", "pausar", "pon en pausa"),
    _remote("stop", "KEY_STOP", "STOP"): ("parar", "para", "detener"),
    _remote("rewind", "KEY_REWIND", "REWIND"): ("rebobinar", "rebobina", "retroceder"),
    _remote("forward", "KEY_FF", "FF"): ("fast forward", "adelantar", "avance rapido", "adelanta", "avanzar"),
    _remote("mute", "KEY_MUTE", "MUTE"): ("silencio", "silenciar", "silencia", "sin sonido"),
    Key("volume_up", ("KEY_VOLUP",), ("audioVolume", "volumeUp", ())): (
        "volume up", "louder", "sube el volumen", "subir volumen", "mas volumen", "mas alto",
    ),
    Key("volume_down", ("KEY_VOLDOWN",), ("audioVolume", "volumeDown", ())): (
        "volume down", "quieter", "baja el volumen", "bajar volumen", "menos volumen", "mas bajo",
    ),
    Key("channel_up", ("KEY_CHUP",), ("tvChannel", "channelUp", ())): (
        "channel up", "next channel", "canal siguiente", "siguiente canal", "sube de canal", "subir canal",
    ),
    Key("channel_down", ("KEY_CHDOWN",), ("tvChannel", "channelDown", ())): (
        "channel down", "previous channel", "canal anterior", "anterior canal", "baja de canal", "bajar canal",
    ),
    Key("info", ("KEY_INFO",), None): ("informacion", "information"),
    Key("guide", ("KEY_GUIDE",), None): ("guia", "programacion", "tv guide"),
    Key("channels", ("KEY_CH_LIST",), None): ("channel list", "lista de canales", "canales"),
    Key("tools", ("KEY_TOOLS",), None): ("herramientas", "opciones", "options"),
    Key("red", ("KEY_RED",), None): ("rojo",),
    Key("green", ("KEY_GREEN",), None): ("verde",),
    Key("yellow", ("KEY_YELLOW",), None): ("amarillo",),
    Key("blue", ("KEY_BLUE",), None): ("azul",),
}  # fmt: skip

_BY_WORD: Final = {word: key for key, words in _WORDS.items() for word in (key.name.replace("_", " "), *words)}
NAMES: Final = tuple(key.name for key in _WORDS)


def find_key(text: str) -> Key:
    """The key that is meant; a number is a channel. Raises ModelError with the names that there are."""
    wanted = fold(text.replace("_", " ")).removeprefix("key ")
    while (shorter := _LEADING.sub("", wanted, count=1) if _LEADING.match(wanted) else wanted) != wanted:
        if wanted in _BY_WORD:
            break
        wanted = shorter
    if (found := _BY_WORD.get(wanted)) is not None:
        return found
    if match := _CHANNEL.fullmatch(wanted):
        digits = match[1]
        codes = (*(f"KEY_{digit}" for digit in digits), "KEY_ENTER")
        return Key(f"channel {digits}", codes, ("tvChannel", "setTvChannel", (digits,)))
    raise ModelError(
        f"there is no key {text[:60]!r}",
        hint=f"keys are: {', '.join(NAMES)}, or a channel's number",
        code="unknown_key",
    )
