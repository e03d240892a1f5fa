"""The Lua scripts, one for each verb in `lua/`, ready to be sent.

A file of `lua/` is not plain Lua: `-- include NAME` is replaced by `lua/include/NAME.lua` or by
generated text (see `_GENERATED`), names of constants by their values (see `constants`), and
functions, tables and comments that the script does not use are left out."""

import re
from collections import Counter
from functools import cache
from hashlib import sha1
from importlib.resources import files

from msgspec import Struct

from .constants import replacements, sets_as_lua
from .key_names import key_functions, key_suffixes, type_checks
from .record_code import lua_client_code, lua_live_code

_PACKAGE = "mita.stores.redis"
_INCLUDE = re.compile(r"^-- include (\w+)\n", re.MULTILINE)
_SUFFIXES = re.compile(r"^-- key suffixes: (.+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_NAME = re.compile(r"\b[A-Z]\w*(?:\.[A-Z_]+)?\b")
# `call` stands for `redis.call`. A local variable would be bound anew to nearly every function.
# The pattern begins with what is searched, which is many times faster than a look behind first.
_CALL = re.compile(r"call\((?<![\w.]call\()")
_WORD = re.compile(r"\w+")
_DEFINITION = re.compile(
    r"^local (?:function (\w+)\((?:[^\n]* end\n|(?:[^\n]*\n)+?end\n)|([A-Z_]+) = [^\n]*\n)",
    re.MULTILINE,
)
_GENERATED = {
    "keys": key_functions,
    "type_checks": type_checks,
    "states": sets_as_lua,
    "live_code": lua_live_code,
    "client_code": lua_client_code,
}


class LuaScript(Struct, frozen=True):
    """A script by its name, its whole text, and the digest under which the server knows it."""

    name: str
    text: str
    sha: str


@cache
def script(name: str) -> LuaScript:
    """The script of this name. Raises `KeyError` if it names an unknown member of an enum."""
    text = assembled(_read(f"{name}.lua"))
    return LuaScript(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def assembled(source: str) -> str:
    """The text of a script, with its includes and constants and without what it does not use."""
    text = _with_includes(source, set())
    text = _SUFFIXES.sub(lambda found: key_suffixes(found[1].split()), text)
    values = replacements()
    text = _NAME.sub(lambda found: _value(found[0], values), _COMMENT.sub("", text))
    return _without_unused(_CALL.sub("redis.call(", text))


def _value(name: str, values: dict[str, str]) -> str:
    return values[name] if "." in name else values.get(name, name)


def _with_includes(text: str, seen: set[str]) -> str:
    """The text with everything that it includes, directly or not. Each include is put in once,
    where it is first named."""

    def put_in(found: re.Match[str]) -> str:
        name = found[1]
        if name in seen:
            return ""
        seen.add(name)
        if name in _GENERATED:
            return _with_includes(_GENERATED[name](), seen)
        return _with_includes(_read("include", f"{name}.lua"), seen)

    return _INCLUDE.sub(put_in, text)


def _without_unused(text: str) -> str:
    """The text without functions and constants that it does not use. The server makes each function
    and each table anew at every call."""
    definitions = {found[1] or found[2]: found for found in _DEFINITION.finditer(text)}
    uses = Counter(filter(definitions.__contains__, _WORD.findall(text)))
    unused: list[re.Match[str]] = []
    while some := [name for name in definitions if uses[name] == 1]:
        for name in some:  # what only these use is unused too
            unused.append(definitions.pop(name))
            uses.subtract(_WORD.findall(unused[-1][0]))
    kept, at = [], 0
    for found in sorted(unused, key=re.Match.start):
        kept.append(text[at : found.start()])
        at = found.end()
    return "".join(kept) + text[at:]


def _read(*path: str) -> str:
    return files(_PACKAGE).joinpath("lua", *path).read_text(encoding="utf-8")
