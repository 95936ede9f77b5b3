"""Messages that need no tools of their own: greetings, thanks, and answers to what was said before. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from coordinator.routing.keywords import KeywordIndex, Words

_TALK = (
    "hola", "holi", "buenas", "buenos días", "buen día", "buenas tardes", "buenas noches", "qué tal", "qué hay",
    "cómo estás", "cómo está", "cómo te va", "cómo va", "cómo va todo", "cómo va eso", "todo bien", "qué pasa",
    "gracias", "muchas gracias", "mil gracias", "muchísimas gracias", "gracias por todo", "muchas gracias por todo",
    "gracias por tu ayuda", "gracias por la ayuda", "te lo agradezco", "de nada", "no hay de qué", "genial",
    "estupendo", "perfecto", "fenomenal", "excelente", "muy bien", "bien", "muy amable", "qué amable",
    "eres muy amable", "eres un crack", "eres genial", "eres el mejor", "buen trabajo", "bien hecho", "qué bien",
    "qué bueno", "qué guay", "guay", "mola", "me alegro", "encantado", "encantada", "un placer", "mucho gusto", "adiós",
    "chao", "hasta luego", "hasta mañana", "hasta pronto", "hasta la próxima", "nos vemos", "cuídate", "que descanses",
    "que vaya bien", "buen fin de semana", "feliz día", "perdón", "perdona", "lo siento", "no pasa nada", "no importa",
    "da igual", "entendido", "ya veo", "quién eres", "cómo te llamas", "cuéntame un chiste", "me aburro", "estás ahí",
    "te quiero", "un saludo", "saludos", "qué tal todo", "q tal", "cómo andas", "cómo andamos", "cómo vas",
    "cómo lo llevas", "cómo estamos", "muy buenas", "me alegra", "te debo una", "mil gracias guapa", "guapa", "guapo",
    "qué alegría", "ay qué bien", "aw lovely", "un abrazo", "un beso", "besos", "me voy a dormir", "lo dejamos aquí",
    "lo dejo por hoy", "por hoy ya está", "ya está", "olvídalo", "no hagas caso", "falsa alarma", "qué risa",
    "me parto", "qué fuerte", "no me digas", "menos mal", "nada", "no nada", "feliz año", "feliz navidad",
    "felices fiestas", "eres la leche", "eres un sol", "ojalá", "ni idea", "no lo sé", "no sé", "ya te digo",
    "tú también", "igualmente", "cuéntame algo", "cuéntame algo divertido", "dime algo bonito", "eres un robot",
    "eres humano", "eres una persona", "cuántos años tienes", "de dónde eres", "estás bien", "hablamos luego",
    "luego te cuento", "luego hablamos", "feliz cumpleaños", "felicidades", "salud", "y tú", "por aquí todo bien",
    "qué haces", "sigues ahí", "me oyes", "me lees", "you there", "still there", "eso es todo", "nada más", "hi",
    "hello", "hey", "hey there", "hi there", "hello there", "howdy", "good morning", "good afternoon", "good evening",
    "good night", "morning", "how are you", "how are you doing", "how are you today", "how is it going",
    "hows it going", "how do you do", "whats up", "what is up", "sup", "are you there", "thanks", "thank you",
    "many thanks", "thanks a lot", "thanks a million", "thank you so much", "thank you very much", "thanks so much",
    "thanks for everything", "thanks for your help", "thanks for the help", "much appreciated", "i appreciate it",
    "you are welcome", "youre welcome", "great", "nice", "cool", "awesome", "excellent", "perfect", "brilliant",
    "wonderful", "lovely", "amazing", "wow", "good job", "well done", "nice work", "good work", "great job",
    "great work", "you are great", "youre great", "you are awesome", "you are the best", "youre the best", "so kind",
    "how kind", "glad to hear that", "pleased to meet you", "nice to meet you", "bye", "goodbye", "bye bye", "see you",
    "see you later", "see you tomorrow", "see you soon", "take care", "have a nice day", "have a good one",
    "have a great day", "have a good weekend", "sorry", "my bad", "no problem", "no worries", "never mind", "got it",
    "i see", "understood", "who are you", "what is your name", "whats your name", "tell me a joke", "i am bored",
    "im bored", "i love you", "cheers", "happy birthday", "congratulations", "and you", "that is all", "thats all",
    "hows everything", "how are things", "hows your day", "how was your day", "are you ok", "are you okay", "hiya",
    "yo", "talk later", "talk to you later", "talk soon", "catch you later", "see ya", "laters", "cya", "ta", "thx",
    "ty", "much obliged", "buen finde", "anda ya", "qué majo eres", "qué majo", "okey dokey", "aw", "you are too kind",
    "youre too kind", "night night", "right then", "got you", "gotcha", "sounds about right", "not bad",
    "i owe you one", "that was exactly what i needed", "just what i needed", "exactly what i needed", "thanks a bunch",
    "you rock", "you are a star", "youre a star", "you are a legend", "youre a lifesaver", "good one", "nice one",
    "very funny", "no way", "for real", "same here", "me too", "fair enough", "makes sense", "fair point",
    "happy new year", "merry christmas", "happy easter", "its fine", "all good", "nah", "you legend", "ha",
    "good to know", "good point", "oh well", "wrong chat", "wrong person", "nevermind", "forget it", "ignore that",
    "false alarm", "i am done", "im done", "im off", "time for bed", "going to bed", "i wish", "tell me something",
    "tell me something funny", "are you human", "are you a robot", "are you real", "how old are you",
    "where are you from", "omg", "phew", "yay", "hooray", "nothing else", "lol", "jaja", "haha",
)  # fmt: skip
_ANSWERS = (
    "sí", "no", "vale", "ok", "okay", "okey", "claro", "claro que sí", "por supuesto", "de acuerdo", "dale", "venga",
    "adelante", "hazlo", "házmelo", "hazlo así", "hazlo tú", "confirmo", "confirmado", "confirma", "exacto", "correcto",
    "eso es", "así es", "así", "sigue", "continúa", "otra vez", "de nuevo", "una vez más", "inténtalo", "prueba",
    "repítelo", "repite", "más", "uno más", "otro", "otra", "el otro", "la otra", "el primero", "la primera",
    "el segundo", "la segunda", "el tercero", "la tercera", "el último", "la última", "ambos", "ambas", "los dos",
    "las dos", "todos", "todas", "ninguno", "ninguna", "ese", "esa", "eso", "este", "esta", "esto", "ese no",
    "como antes", "igual que antes", "lo mismo", "bórralo", "bórrala", "ábrelo", "ábrela", "léelo", "léela",
    "enséñamelo", "muéstramelo", "mándalo", "envíalo", "cámbialo", "quítalo", "para", "déjalo", "mejor no",
    "todavía no", "aún no", "aquí", "bueno", "yes", "yeah", "yep", "yup", "nope", "sure", "of course", "alright",
    "all right", "fine", "do it", "do that", "do so", "go ahead", "go on", "go for it", "carry on", "continue",
    "proceed", "confirm", "confirmed", "exactly", "correct", "right", "that is right", "thats right", "again",
    "once more", "one more time", "try again", "retry", "repeat", "repeat that", "more", "one more", "another",
    "another one", "the other", "the other one", "the first", "the first one", "the second", "the second one",
    "the third", "the third one", "the last", "the last one", "both", "both of them", "all", "all of them", "none",
    "none of them", "that", "that one", "this", "this one", "those", "these", "not that one", "as before",
    "same as before", "the same", "delete it", "open it", "read it", "show it", "show me", "send it", "change it",
    "remove it", "stop", "stop it", "not yet", "better not", "sounds good", "works for me", "i agree", "agreed",
    "yes please",
)  # fmt: skip
_FILLERS = (
    "por favor", "porfa", "please", "y", "and", "pues", "ya", "ahora", "ahora mismo", "now", "right now", "then",
    "luego", "entonces", "so", "oh", "ah", "eh", "a todos", "everyone", "all", "there", "muy", "very", "just",
    "capataz", "amigo", "amiga", "friend", "mate", "buddy", "de verdad", "really", "oye", "bueno", "no", "hey",
    "all good", "its fine", "nah", "na", "hoy", "today", "con eso", "with that",
)  # fmt: skip
_OPENINGS = (
    "gracias", "muchas gracias", "mil gracias", "muchísimas gracias", "te lo agradezco", "perdón", "perdona",
    "perfecto", "genial", "estupendo", "perfect", "great", "brilliant", "awesome", "disculpa", "lo siento", "ups",
    "eres un", "eres una", "eres el", "eres la", "sos un", "sos una", "sos el", "qué día llevo", "qué día más",
    "vaya día", "qué semana llevo", "qué calor", "qué frío", "qué sueño", "qué hambre", "qué ganas", "qué pereza",
    "qué rabia", "qué alegría", "qué pena", "vaya", "menudo", "menuda", "buah", "uf", "uff", "ay", "madre mía", "ojalá",
    "buenas noches", "hasta", "adiós", "me voy", "te quiero", "me encanta", "me alegro", "estoy cansado",
    "estoy cansada", "estoy muerto", "estoy muerta", "estoy harto", "estoy harta", "estoy agotado", "estoy agotada",
    "estoy contento", "estoy contenta", "estoy triste", "estoy aburrido", "estoy aburrida", "estoy hecho polvo",
    "thank you", "thanks for", "thanks a", "thanks so", "thanks again", "cheers", "many thanks", "much appreciated",
    "i appreciate", "im grateful", "sorry", "apologies", "my bad", "oops", "whoops", "you are a", "youre a",
    "you are an", "youre an", "you are the", "youre the", "you are so", "youre so", "that was a", "that was just",
    "that was exactly", "that was perfect", "that was great", "thats me", "what a day", "what a week", "what a mess",
    "what a relief", "what a shame", "ugh", "phew", "wow", "omg", "oh no", "oh dear", "good night", "goodbye", "bye",
    "see you", "i wish", "i love", "im so", "im tired", "im exhausted", "im knackered", "im bored", "im happy",
    "im sad", "im sleepy", "i am so", "i am tired", "i am exhausted", "glad", "nice talking", "nice chatting",
    "good talking", "it was great", "it was nice", "have a",
)  # fmt: skip
_FOLLOW_UPS = (
    "y", "y si", "y qué", "y para", "qué hay de", "pero", "mejor", "no mejor", "en vez de eso", "en lugar de eso",
    "que sea", "ponlo", "pásalo", "cámbialo", "hazlo", "la de", "el de", "los de", "las de", "and", "and if",
    "what about", "how about", "but", "better", "make it", "make that", "instead", "rather", "the one", "the ones",
    "actually", "not that", "same for", "same with", "lo mismo para", "lo mismo con", "igual para", "también", "also",
)  # fmt: skip
_ASKING = (
    "puedes", "puede", "podrías", "podría", "quiero", "quisiera", "necesito", "me gustaría", "dime", "dame", "haz",
    "hazme", "pon", "ponme", "qué", "cómo", "cuándo", "cuánto", "cuántos", "dónde", "quién", "cuál", "por qué", "pero",
    "ahora", "también", "además", "can", "could", "would", "will", "want", "need", "like to", "tell me", "give me",
    "get me", "show me", "what", "how", "when", "where", "who", "which", "why", "but", "now", "also", "please",
)  # fmt: skip
_PLAIN = (
    "traduce|tradúceme|traducir|traduzcas … al|en|inglés|francés|alemán|italiano|portugués|español",
    "cómo|como se dice|escribe|pronuncia … en|inglés|francés|alemán|italiano|portugués|español", "conjuga|conjugar",
    "el verbo", "<number> nombres para", "whats the past|plural|opposite", "past tense", "el plural de",
    "el femenino de", "plural of", "<number> names for", "qué significa|quiere decir",
    "sinónimo|sinónimos|antónimo|rima|rimas de|con|para",
    "escríbeme|escribe|hazme|invéntate|invéntame|cuéntame … poema|poesía|cuento|chiste|adivinanza|brindis|discurso",
    "escríbeme|escribe|hazme|prepárame … redacción|dedicatoria|carta de|pie de|canción|eslogan|guion",
    "dame|dime|sugiéreme|necesito|proponme idea|ideas", "se te ocurre|ocurren", "cómo|como explico|funciona|funcionan",
    "explícame|explica|explicas|explícale|explicar qué|cómo|por|la|el|lo",
    "quién|quien pintó|escribió|inventó|fue|era|compuso", "cuál|qué es la capital", "capital de",
    "por qué el|la|los|las", "haz que suene|quede", "suena|suene más|menos",
    "corrige|corrígeme|revisa|reescribe la|esta|este|el|mi ortografía|frase|texto|párrafo|redacción",
    "translate … to|into|in|french|spanish|german|italian", "how do you|i|we say|spell|pronounce", "what does … mean",
    "whats the french|spanish|german|italian|word|capital|plural|plot|meaning",
    "what is the french|spanish|german|italian|word|capital|plural|plot|meaning",
    "synonym|synonyms|antonym|rhymes|rhyme for|with|of",
    "write|compose me|us|a … poem|toast|speech|story|joke|limerick|haiku|song|essay|caption|slogan|riddle",
    "write me|a cover|short|funny|best letter|toast|speech|story|poem|man",
    "give|suggest me|us|some|a … ideas|names|tips", "make this|it|that sound|read",
    "rephrase|reword|proofread|paraphrase", "less|more rude|formal|polite|friendly", "when do you use|say",
    "who painted|wrote|invented|composed|discovered|was|were", "how come", "why is|are|do|does|did",
    "explain how|why|what|the|to|it|like", "how do|does|did a|an|the … work|works",
    "what can|could|should i|we make|cook", "whats the difference between", "which is correct|right",
    "grammar of|in|for",
)  # fmt: skip
_FOLLOWING = 7  # words of which a message that takes up the one before may consist
_LOOSE = 8  # words of which a message with such an opening may consist
_LAUGHTER = re.compile(r"(?:[jh][aei]){2,}[jh]?|lol|lmao|xd")
_LAUGHS = "jhlx"  # how that begins

_INDEX = KeywordIndex(
    [*(("talk", p) for p in _TALK), *(("answer", p) for p in _ANSWERS), *(("filler", p) for p in _FILLERS)]
)
_STARTS = KeywordIndex([("follow", phrase) for phrase in _FOLLOW_UPS])
_ANSWERABLE = KeywordIndex([("plain", phrase) for phrase in _PLAIN])
_MOODS = KeywordIndex([*(("opening", p) for p in _OPENINGS), *(("asking", p) for p in _ASKING)])

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


def is_all_talk(words: Sequence[str]) -> bool:
    """Whether a message given as `read` holds nothing but phrases that need nothing done."""
    owners = _INDEX.cover(_without_laughter(words))
    return owners is not None and {"talk"} <= owners <= {"talk", "filler"}


def kind(words: Sequence[str]) -> Literal["talk", "answer", "follow"] | None:
    """What a message given as `read` is, when it holds nothing but such phrases, or begins with one and asks nothing.

    `answer` refers to what went before ("yes, do it"), as `follow` seems to ("and in London?"); `talk` needs nothing
    done. None: it says something else, or nothing at all.
    """
    if not words:
        return None
    said = _without_laughter(words)
    covers = _INDEX.covers(said)
    owners = covers[-1]
    if owners is None or owners == {"filler"}:
        covered = [at for at, cover in enumerate(covers) if cover is not None]
        if owners is None and _is_mood(said, covered[-1], laughs=len(said) < len(words)):
            return "talk"
        return "follow" if len(said) <= _FOLLOWING and _follows(said, covered) else None
    return "answer" if "answer" in owners else "talk"


def is_plain(words: Sequence[str]) -> bool:
    """Whether a message given as `read` asks for what a model knows or writes by itself: "translate this", "why …".

    That holds only where nothing else in the message names a group.
    """
    return _ANSWERABLE.speaks(words)


def _without_laughter(words: Sequence[str]) -> Words:
    return tuple([word for word in words if word[0] not in _LAUGHS or not _LAUGHTER.fullmatch(word)])


def _follows(words: Words, covered: Sequence[int]) -> bool:
    """True for words that take up what was said before, behind a yes or no or nothing.

    `covered` are the lengths of the beginnings that `_INDEX` covers.
    """
    return any(_STARTS.starts(words, at) for at in covered)


def _is_mood(words: Words, start: int, *, laughs: bool) -> bool:
    """True for a few words of thanks, praise, regret or feeling: "thank you, you saved my afternoon".

    `start` is the length of the longest beginning that `_INDEX` covers.
    """
    if len(words) - start > _LOOSE:
        return False
    opened = laughs or any("opening" in _MOODS.owners(words[at : at + 3]) for at in range(start + 1))
    return opened and "asking" not in _MOODS.owners(words)
