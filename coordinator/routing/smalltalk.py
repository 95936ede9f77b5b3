"""Messages that need no tools of their own: greetings, thanks, and answers to what was said before. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from coordinator.routing.keywords import KeywordIndex

_TALK = (
    "hola", "holi", "buenas", "buenos días", "buen día", "buenas tardes", "buenas noches", "qué tal", "qué hay",
    "cómo estás", "cómo está", "cómo te va", "cómo va", "cómo va todo", "cómo va eso", "todo bien", "qué pasa",
    "gracias", "muchas gracias", "mil gracias", "muchísimas gracias", "gracias por todo", "gracias por tu ayuda",
    "gracias por la ayuda", "te lo agradezco", "de nada", "no hay de qué", "genial", "estupendo", "perfecto",
    "fenomenal", "excelente", "muy bien", "bien", "muy amable", "qué amable", "eres muy amable", "eres un crack",
    "eres genial", "eres el mejor", "buen trabajo", "bien hecho", "qué bien", "qué bueno", "qué guay", "guay", "mola",
    "me alegro", "encantado", "encantada", "un placer", "mucho gusto", "adiós", "chao", "hasta luego", "hasta mañana",
    "hasta pronto", "hasta la próxima", "nos vemos", "cuídate", "que descanses", "que vaya bien", "buen fin de semana",
    "feliz día", "perdón", "perdona", "lo siento", "no pasa nada", "no importa", "da igual", "entendido", "ya veo",
    "quién eres", "cómo te llamas", "cuéntame un chiste", "me aburro", "estás ahí", "te quiero", "un saludo", "saludos",
    "feliz cumpleaños", "felicidades", "salud", "y tú", "por aquí todo bien", "qué haces", "eso es todo", "nada más",
    "hi", "hello", "hey", "hey there", "hi there", "hello there", "howdy", "good morning", "good afternoon",
    "good evening", "good night", "morning", "how are you", "how are you doing", "how are you today", "how is it going",
    "hows it going", "how do you do", "whats up", "what is up", "sup", "are you there", "thanks", "thank you",
    "many thanks", "thanks a lot", "thanks a million", "thank you so much", "thank you very much", "thanks so much",
    "thanks for everything", "thanks for your help", "thanks for the help", "much appreciated", "i appreciate it",
    "you are welcome", "youre welcome", "great", "nice", "cool", "awesome", "excellent", "perfect", "brilliant",
    "wonderful", "lovely", "amazing", "wow", "good job", "well done", "nice work", "good work", "great job",
    "great work", "you are great", "youre great", "you are awesome", "you are the best", "youre the best", "so kind",
    "how kind", "glad to hear that", "pleased to meet you", "nice to meet you", "bye", "goodbye", "bye bye",
    "see you", "see you later", "see you tomorrow", "see you soon", "take care", "have a nice day", "have a good one",
    "have a great day", "have a good weekend", "sorry", "my bad", "no problem", "no worries", "never mind", "got it",
    "i see", "understood", "who are you", "what is your name", "whats your name", "tell me a joke", "i am bored",
    "im bored", "i love you", "cheers", "happy birthday", "congratulations", "and you", "that is all", "thats all",
    "nothing else", "lol", "jaja", "haha",
)  # fmt: skip
_ANSWERS = (
    "sí", "no", "vale", "ok", "okay", "okey", "claro", "claro que sí", "por supuesto", "de acuerdo", "dale", "venga",
    "adelante", "hazlo", "házmelo", "hazlo así", "hazlo tú", "confirmo", "confirmado", "confirma", "exacto", "correcto",
    "eso es", "así es", "así", "sigue", "continúa", "otra vez", "de nuevo", "una vez más", "inténtalo", "prueba",
    "repítelo", "repite", "más", "uno más", "otro", "otra", "el otro", "la otra", "el primero", "la primera",
    "el segundo", "la segunda", "el tercero", "la tercera", "el último", "la última", "ambos", "ambas", "los dos",
    "las dos", "todos", "todas", "ninguno", "ninguna", "ese", "esa", "eso", "este", "esta", "esto", "ese no",
    "como antes", "igual que antes", "lo mismo", "bórralo", "bórrala", "ábrelo", "ábrela", "léelo", "léela",
    "enséñamelo", "muéstramelo", "mándalo", "envíalo", "cámbialo", "quítalo", "para", "déjalo",
    "mejor no", "todavía no", "aún no",
    "aquí", "bueno", "yes", "yeah", "yep", "yup", "nope", "sure", "of course", "alright", "all right", "fine", "do it",
    "do that", "do so", "go ahead", "go on", "go for it", "carry on", "continue", "proceed", "confirm", "confirmed",
    "exactly", "correct", "right", "that is right", "thats right", "again", "once more", "one more time", "try again",
    "retry", "repeat", "repeat that", "more", "one more", "another", "another one", "the other", "the other one",
    "the first", "the first one", "the second", "the second one", "the third", "the third one", "the last",
    "the last one", "both", "both of them", "all", "all of them", "none", "none of them", "that", "that one", "this",
    "this one", "those", "these", "not that one", "as before", "same as before", "the same", "delete it", "open it",
    "read it", "show it", "show me", "send it", "change it", "remove it", "stop", "stop it", "not yet", "better not",
    "sounds good", "works for me", "i agree", "agreed", "yes please",
)  # fmt: skip
_FILLERS = (
    "por favor", "porfa", "please", "y", "and", "pues", "ya", "ahora", "ahora mismo", "now", "right now", "then",
    "luego", "entonces", "so", "oh", "ah", "eh", "a todos", "everyone", "all", "there", "muy", "very", "just",
    "capataz", "amigo", "amiga", "friend", "mate", "buddy", "de verdad", "really", "hoy", "today", "con eso",
    "with that",
)  # fmt: skip
_LAUGHTER = re.compile(r"(?:[jh][aei]){2,}[jh]?")

_INDEX = KeywordIndex(
    [*(("talk", p) for p in _TALK), *(("answer", p) for p in _ANSWERS), *(("filler", p) for p in _FILLERS)]
)

SENTENCES = (
    "hola, ¿qué tal va el día?",
    "muchísimas gracias, me has salvado",
    "qué simpático eres",
    "hoy estoy un poco cansado",
    "menudo día llevo",
    "me encanta hablar contigo",
    "buenas noches, que descanses",
    "cuéntame algo gracioso",
    "¿eres una persona o una máquina?",
    "¿cómo te encuentras hoy?",
    "qué ganas tengo de que llegue el verano",
    "perdona por la tardanza",
    "hi, how has your day been?",
    "thanks a lot, you saved me",
    "you are really funny",
    "i am a bit tired today",
    "what a day i am having",
    "i love talking with you",
    "good night, sleep well",
    "tell me something funny",
    "are you a person or a machine?",
    "how do you feel today?",
    "i cannot wait for summer",
    "sorry for being late",
)
"""Examples of small talk for layer 2, which sees what no list of phrases foresees."""


def kind(words: Sequence[str]) -> Literal["talk", "answer"] | None:
    """What a message given as `stems` is, when such phrases are all that it holds.

    `answer` refers to what went before ("yes, do it"); `talk` needs nothing done. None: it says something else, or
    nothing at all.
    """
    if not words:
        return None
    owners = _INDEX.cover([word for word in words if not _LAUGHTER.fullmatch(word)])
    if owners is None or owners == {"filler"}:
        return None
    return "answer" if "answer" in owners else "talk"
