"""The text of the Lua scripts: nothing is undefined, nothing is unused."""

import re
from pathlib import Path

import pytest

from mita.stores.redis.scripting import scripts

ROOT = Path(scripts.__file__).parents[1]
NAMES = sorted(path.stem for path in (ROOT / "lua").glob("*.lua"))
INCLUDES = {path.stem for path in (ROOT / "lua" / "include").glob("*.lua")}
GIVEN = {"KEYS", "ARGV"}  # Redis defines these


@pytest.mark.parametrize("name", NAMES)
def test_every_constant_of_a_script_has_a_value(name: str) -> None:
    text = re.sub(r"'[^'\n]*'|--[^\n]*", "", scripts.script(name).text)
    defined = set(re.findall(r"\blocal ([A-Z]\w*)", text))
    used = set(re.findall(r"(?<![\w.])[A-Z]\w+", text))
    assert used - defined - GIVEN == set()


def test_every_script_is_run() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("*.py"))
    assert [name for name in NAMES if f'"{name}"' not in source] == []


def test_every_include_is_included() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "lua").rglob("*.lua"))
    assert {name for name in INCLUDES if f"-- include {name}\n" not in text} == set()
