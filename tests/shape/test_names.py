"""Names that explain themselves: no class name twice in `src`, and constants with their unit.

A module constant that is a number names its subject and its unit, the unit last: `LEASE_S`,
`CLAIM_SCAN_JOBS`, `MOST_PAYLOAD_BYTES`. A unit is one of `UNITS`, or what is counted, in the plural
(`_JOBS`, `_TRIES`). A constant of the type `Wait` or `Moment` is in milliseconds by its type.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import mita

SRC = Path(mita.__file__).parent

UNITS = {
    "S",  # seconds
    "MS",
    "US",
    "BYTES",
    "BITS",
    "HZ",  # per second
    "RATIO",  # a number without a unit that others are multiplied with
    "SHARE",  # a part of a whole, from 0 to 1
    "VERSION",
    "PRIORITY",
    "PORT",
    "CODE",  # stands for something in a protocol or a format
}
TIME_TYPES = {"Wait", "Moment"}  # milliseconds

# class name: why it may be there twice
EXCUSED_CLASSES = {
    "Job": "`mita.Job` is what a handler is given, `model.job.Job` is what a store returns",
}

# path:NAME: why it needs no unit
EXCUSED_CONSTANTS = {
    "handler_main.py:_PR_SET_PDEATHSIG": "the name that Linux has for it",
    "tasks/stored.py:LARGEST": "the bound of an integer, which has no unit",
    "tasks/stored.py:SMALLEST": "the bound of an integer, which has no unit",
    "model/time.py:LATEST": "it bounds the type `Moment`, and is defined before it",
    "stores/nats/stream/slots.py:WAKE_SLOT": "the number of a slot",
}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(SRC.rglob("*.py")):
        yield str(file.relative_to(SRC)), ast.parse(file.read_text(encoding="utf-8"))


def is_number(value: ast.expr | None) -> bool:
    """Whether an expression is a number: a literal, or arithmetic with at least one literal."""
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int | float) and not isinstance(value.value, bool)
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    if isinstance(value, ast.BinOp) and not isinstance(value.op, ast.BitOr | ast.BitAnd):
        sides = (value.left, value.right)
        return any(map(is_number, sides)) and all(
            is_number(side) or isinstance(side, ast.Name | ast.Attribute) for side in sides
        )
    return False


def numbers(tree: ast.Module) -> Iterator[str]:
    """The names of the module's constants that are numbers and have no type of time."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            if ast.unparse(node.annotation) not in TIME_TYPES and is_number(node.value):
                yield node.target.id
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                for name, value in pairs:
                    if isinstance(name, ast.Name) and is_number(value):
                        yield name.id


def has_subject_and_unit(name: str) -> bool:
    *subject, unit = name.strip("_").split("_")
    return bool(subject) and (unit in UNITS or re.fullmatch(r"[A-Z]{2,}S", unit) is not None)


def test_no_class_name_is_there_twice() -> None:
    found = defaultdict(list)
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    twice = {name: paths for name, paths in found.items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if name not in EXCUSED_CLASSES} == {}
    assert [name for name in EXCUSED_CLASSES if name not in twice] == [], "excuses for nothing"


def test_constants_name_their_subject_and_their_unit() -> None:
    bare = [
        f"{path}:{name}"
        for path, tree in trees()
        for name in numbers(tree)
        if not has_subject_and_unit(name)
    ]
    assert [name for name in bare if name not in EXCUSED_CONSTANTS] == []
    assert [name for name in EXCUSED_CONSTANTS if name not in bare] == [], "excuses for nothing"
