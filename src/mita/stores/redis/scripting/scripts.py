"""The Lua scripts, one to a verb in `lua/`, with what they include put in."""

import re
from collections import Counter
from functools import cache
from hashlib import sha1
from importlib.resources import files

from msgspec import Struct

from .key_names import as_lua, tails

# From how many on the jobs of one claim get a lease together, and up to which length a job is
# looked for in a list.
SIZES = {"SMALLEST_BATCH": 8, "SHORT_LIST": 128}

_PACKAGE = "mita.stores.redis"
_INCLUDE = re.compile(r"^-- include (\w+)\n", re.MULTILINE)
_TAILS = re.compile(r"^-- tails (.+)\n", re.MULTILINE)
_FUNCTION = re.compile(
    r"^local function (\w+)\((?:[^\n]* end\n|.*?^end\n)", re.MULTILINE | re.DOTALL
)


class LuaScript(Struct, frozen=True):
    name: str
    text: str
    sha: str


@cache
def script(name: str) -> LuaScript:
    text = _TAILS.sub(lambda found: tails(found[1].split()), _whole(_read(f"{name}.lua"), set()))
    text = _without_unused(
        "".join(line for line in text.splitlines(True) if not line.lstrip().startswith("--"))
    )
    return LuaScript(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def _whole(text: str, seen: set[str]) -> str:
    """With everything that it includes, and that includes, each put in once, where it is first
    asked for."""

    def put_in(found: re.Match[str]) -> str:
        if found[1] in seen:
            return ""
        seen.add(found[1])
        return _whole(_included(found[1]), seen)

    return _INCLUDE.sub(put_in, text)


def _without_unused(text: str) -> str:
    """A script makes each of its functions at every call: it has only those of its includes that it
    names."""
    names = Counter(re.findall(r"\w+", text))
    lean = _FUNCTION.sub(lambda found: found[0] if names[found[1]] > 1 else "", text)
    return lean if lean == text else _without_unused(lean)


def _included(name: str) -> str:
    if name == "keys":
        return as_lua() + "".join(f"local {size} = {number}\n" for size, number in SIZES.items())
    return _read("include", f"{name}.lua")


def _read(*path: str) -> str:
    return files(_PACKAGE).joinpath("lua", *path).read_text(encoding="utf-8")
