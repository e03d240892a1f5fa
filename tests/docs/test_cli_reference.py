"""The page of commands equals the output of `--help`. `python -m tests.docs.test_cli_reference`
writes it again."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mita.cli import grammar

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"

HEAD = """# Commands

The store is `--url`, or else that of the app (`--app`, `$MITA_APP`), or else `$MITA_URL`, or else
`sqlite:///mita.db`. [Settings of a project](../guide/workers.md#settings-of-a-project) stand for
options that are not given. Every command takes `--json`. A job's id may be shortened to any unique
prefix; on a terminal, lists show ids like that. Delays are written as `90`, `90s`, `5m`, `2h` or
`1d`.

Text that comes from jobs (names, keys, errors, reasons, progress) cannot control a terminal:
control, escape and direction characters are shown as their escapes (`\\x1b`), in answers, errors
and log lines. `--json` keeps the exact text, as JSON escapes.

"""


def commands(root: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in root._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield command
                yield from commands(command)


def render() -> str:
    os.environ["COLUMNS"] = "110"
    parts = [f"```text\n{grammar().format_help().strip()}\n```\n"]
    for command in commands(grammar()):
        text = command.format_help().split("\nexit codes:")[0].strip()
        parts.append(f"## `{command.prog}`\n\n```text\n{text}\n```\n")
    return HEAD + "\n".join(parts)


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="later versions of argparse lay help out in another way"
)
def test_the_page_of_commands_is_what_help_says() -> None:
    assert PAGE.read_text() == render()


if __name__ == "__main__":
    PAGE.write_text(render())
