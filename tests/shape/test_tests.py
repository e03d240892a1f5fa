"""What holds for the tests themselves: each asserts something, and each test of the contract says
what it promises."""

import ast
import re
from functools import cache
from pathlib import Path

from mita.testing.contract import TESTS

ROOT = Path(__file__).parents[2]
FOLDERS = ("tests", "src/mita/testing")
CHECKS = {"raises", "warns", "fail"}  # of pytest
INVARIANTS = {
    "I1": "no loss",
    "I2": "no phantom",
    "I3": "one outcome",
    "I4": "bounded duplicates",
    "I5": "key mutex",
    "I6": "attempts",
    "I7": "repeats",
    "I8": "not early",
    "I9": "no starvation",
    "I10": "terminal is terminal",
    "I11": "durable ack",
    "I12": "self-heal",
    "I13": "conservation",
    "I14": "bounded",
    "I15": "never drop",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def functions() -> list[tuple[str, Function]]:
    """Every function of the tests, with the file that it is in."""
    return [
        (str(path.relative_to(ROOT)), node)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, Function)
    ]


def called(function: Function) -> set[str]:
    """The names of the functions that it calls, without the objects that they belong to."""
    return {
        ast.unparse(node.func).rpartition(".")[2]
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
    }


def asserts(function: Function) -> bool:
    has_assert = any(isinstance(node, ast.Assert) for node in ast.walk(function))
    unittests = any(name.startswith("assert") for name in called(function))
    return has_assert or unittests or bool(called(function) & CHECKS)


def helpers_that_assert() -> set[str]:
    """The names of functions that assert, or call a function that does."""
    found = {function.name for _, function in functions() if asserts(function)}
    while True:
        more = {function.name for _, function in functions() if called(function) & found} - found
        if not more:
            return found
        found |= more


def test_every_test_asserts_something() -> None:
    helpers = helpers_that_assert()
    empty = [
        f"{file}:{function.lineno} {function.name}"
        for file, function in functions()
        if function.name.startswith("test_")
        and not asserts(function)
        and not called(function) & helpers
    ]
    assert empty == []


def test_every_test_of_the_contract_says_what_it_promises() -> None:
    assert [name for name, test in TESTS.items() if not test.__doc__] == []


def test_the_contract_names_the_invariants_that_it_guards() -> None:
    """As `I3 one outcome`, and each of them is guarded by a test."""
    named = [
        (number, words)
        for test in TESTS.values()
        for number, words in re.findall(r"\b(I\d+) ([a-z -]+?)(?=[,:])", test.__doc__ or "")
    ]
    assert {words for number, words in named if INVARIANTS[number] != words} == set()
    assert {number for number, _ in named} == set(INVARIANTS)
