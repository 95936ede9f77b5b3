"""What the code itself says about the protocol: events, error codes and keys, found by reading the sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
LUA = ROOT / "shared" / "state" / "lua"
PACKAGES = ("shared", "coordinator", "workers")
EMITTERS = ("event", "write", "delta")
"""Methods whose first argument is an event's type: `event` of a change, the others of an event writer."""
FORWARDERS = {("coordinator/events.py", "delta"), ("coordinator/events.py", "write")}
"""Methods that pass on the type that they were given."""


@dataclass
class Site:
    """One place that emits an event. `splats` are the sources of `**…` arguments."""

    where: str
    kinds: tuple[str, ...]
    fields: tuple[str, ...]
    splats: tuple[str, ...] = ()
    codes: tuple[str, ...] = field(default=())


@cache
def python_files() -> tuple[Path, ...]:
    """All sources of the packages that write to Redis."""
    return tuple(sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py")))


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _strings(node: ast.expr | None, function: ast.AST) -> tuple[str, ...]:
    """The texts that an expression may have: a literal, a choice of two, a local name for one of these."""
    match node:
        case ast.Constant(value=str(text)):
            return (text,)
        case ast.IfExp(body=one, orelse=other):
            return (*_strings(one, function), *_strings(other, function))
        case ast.Name(id=name):
            found = [
                _strings(a.value, function)
                for a in ast.walk(function)
                if isinstance(a, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in a.targets)
            ]
            return tuple(text for texts in found for text in texts)
        case _:
            return ()


def texts(node: ast.expr) -> set[str]:
    """The text of a literal, with `<n>` for what an f-string fills in; none for other expressions."""
    match node:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.JoinedStr(values=parts):
            return {"".join(str(p.value) if isinstance(p, ast.Constant) else "<n>" for p in parts)}
        case _:
            return set()


def _receiver(call: ast.Call) -> str:
    """The last name before the method: `events` in `self._handle.events.write(…)`."""
    target = call.func.value if isinstance(call.func, ast.Attribute) else None
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""


@cache
def python_sites() -> tuple[Site, ...]:
    """Every `change.event(…)`, `events.write(…)`, `events.delta(…)`, and XADD to an event stream."""
    sites = []
    for path in python_files():
        name = path.relative_to(ROOT).as_posix()
        for function in _functions(path):
            for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
                if (site := _site(call, function, f"{name}:{call.lineno}")) is not None:
                    if not site.kinds and (name, function.name) in FORWARDERS:
                        continue
                    sites.append(site)
    return tuple(sites)


def _site(call: ast.Call, function: ast.AST, where: str) -> Site | None:
    texts = [a.value if isinstance(a, ast.Constant) else None for a in call.args]
    if "XADD" in texts and "type" in texts:
        kinds = _strings(call.args[texts.index("type") + 1], function)
        return Site(where, kinds, _keys_of_dumped(function)) if kinds else None
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in EMITTERS or not call.args:
        return None
    if call.func.attr != "event" and _receiver(call) not in ("events", "self"):
        return None
    if _receiver(call) == "self" and not where.startswith("coordinator/events.py"):
        return None
    fields = tuple(k.arg for k in call.keywords if k.arg)
    if call.func.attr == "delta":
        fields = ("attempt", "text")
    splats = tuple(ast.unparse(k.value) for k in call.keywords if k.arg is None)
    codes = tuple(c for k in call.keywords if k.arg == "code" for c in _strings(k.value, function))
    return Site(where, _strings(call.args[0], function), fields, splats, codes)


def _keys_of_dumped(function: ast.AST) -> tuple[str, ...]:
    """Keys of the dictionary that the function gives to `json.dumps`."""
    for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
        if ast.unparse(call.func) == "json.dumps" and isinstance(call.args[0], ast.Dict):
            return tuple(str(k.value) for k in call.args[0].keys if isinstance(k, ast.Constant))
    return ()


def lua(name: str) -> str:
    """The text of one script, as its file has it."""
    return (LUA / f"{name}.lua").read_text("utf-8")


def lua_names() -> list[str]:
    """All scripts, without the library."""
    return sorted(p.stem for p in LUA.glob("*.lua") if p.stem != "lib")


@cache
def lua_sites() -> tuple[Site, ...]:
    """Every `emit(cfg, session, 'type', run, data)` with a literal type, in scripts and library."""
    sites = []
    for name in ["lib", *lua_names()]:
        text = lua(name)
        for found in re.finditer(r"\bemit\(cfg, [\w.\[\]]+, '([a-z.]+)', ", text):
            sites.append(Site(f"{name}.lua", (found[1],), _lua_fields(text, found.end())))
    return tuple(sites)


def _lua_fields(text: str, start: int) -> tuple[str, ...]:
    """Field names in the `data` argument: of an encoded table, of a JSON text, or of the variable `body`."""
    argument = text[start : text.index("\n", text.index(")", start))]
    if argument.split(", ", 1)[1].startswith("body"):
        argument = text[text.rindex("local body =", 0, start) : start]
    argument = re.sub(r"\berror = \{[^}]*\}", "error = 0", argument)
    return tuple(re.findall(r"(\w+) = ", argument.replace("local body = ", ""))) + tuple(
        re.findall(r'"(\w+)":', argument)
    )


def lua_error_codes() -> set[str]:
    """Codes with which messages are refused, when they are routed or when their turn comes."""
    text = lua("route") + lua("claim_runs")
    return set(re.findall(r"\brefuse\(d, '(\w+)'", text)) | set(re.findall(r"error = \{ code = '(\w+)'", text))


def python_error_codes(*paths: str) -> set[str]:
    """Literal codes of UserError and ErrorInfo in these sources."""
    codes = set()
    for path in paths:
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id in ("UserError", "ErrorInfo"):
                codes |= {c for k in call.keywords if k.arg == "code" for c in _strings(k.value, tree)}
    return codes


# --- keys of the Lua scripts ------------------------------------------------------------------------------------

_OPERAND = r"(?:'[^']*'|[A-Za-z_][\w.]*(?:\[[^\]]*\])?)"
_CHAIN = re.compile(rf"(?<![\w'.]){_OPERAND}(?: \.\. {_OPERAND})+")
_FUNCTION = re.compile(r"^local function (\w+)\(.*?^end$", re.MULTILINE | re.DOTALL)


def lua_keys(name: str) -> set[str]:
    """Patterns of the keys that a script touches, also through the library; `<>` stands for what varies."""
    bodies = {m[1]: m[0] for m in _FUNCTION.finditer(lua("lib"))}
    text = lua(name)
    wanted, used = [text], set()
    while wanted:
        body = wanted.pop()
        for called in re.findall(r"\b(\w+)\(", body):
            if called in bodies and called not in used:
                used.add(called)
                wanted.append(bodies[called])
    found = _keys_in(text)
    for function in used:
        found |= _keys_in(bodies[function])
    return found


def _keys_in(text: str) -> set[str]:
    """Keys in one piece of Lua; a variable that holds the beginning of a key counts only where it is used whole."""
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
    bases = {m[1]: _pattern(m[2], {}) for m in re.finditer(rf"local (\w+) = (P(?: \.\. {_OPERAND})+)", code)}
    loops = {m[1]: re.findall(r"'([^']*)'", m[2]) for m in re.finditer(r"for _, (\w+) in ipairs\(\{(.*?)\}\)", code)}
    found: set[str] = set()
    for chain in _CHAIN.findall(code):
        first = chain.split(" .. ")[0]
        if first == "P" or first in bases:
            for variant in _variants(chain, loops):
                found.add(_pattern(variant, bases))
    for name, pattern in bases.items():
        if not re.search(rf"[(, ]{name}[,)]", code):  # only ever the beginning of longer keys
            found.discard(pattern)
    return found


def _variants(chain: str, loops: dict[str, list[str]]) -> list[str]:
    for name, values in loops.items():
        if re.search(rf"\.\. {name}$", chain):
            return [re.sub(rf"{name}$", f"'{value}'", chain) for value in values]
    return [chain]


def _pattern(chain: str, bases: dict[str, str]) -> str:
    parts = []
    for operand in chain.split(" .. "):
        if operand.startswith("'"):
            parts.append(operand[1:-1])
        elif operand != "P":
            parts.append(bases.get(operand, "<>"))
    return "".join(parts)


def header(name: str, word: str) -> str:
    """What follows `-- word:` in a script's header, over its continued lines."""
    found = re.search(rf"^-- {word}: (.*(?:\n--  +.*)*)", lua(name), re.MULTILINE)
    return re.sub(r"\n--\s+", " ", found[1]) if found else ""


def header_keys(name: str) -> set[str]:
    """Patterns in the `keys` line: groups apart by `;`, in which `:suffix` repeats the first key's beginning."""
    out: set[str] = set()
    for group in header(name, "keys").split(";"):
        base = ""
        for item in (i.strip() for i in group.split(",")):
            item = re.sub(r"<[^>]+>", "<>", item)
            if item.startswith(":"):
                item = base + item
            else:
                base = ":".join(item.split(":")[:2])
            out.add(item)
    return out
