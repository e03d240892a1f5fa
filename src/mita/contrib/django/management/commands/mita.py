"""`manage.py mita`: every command of the command line, with the app of this project."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mita.cli import grammar, main
from mita.contrib.django.conf import TARGET


class Command(BaseCommand):
    """Passes its words on to `mita`, which uses the app of this project unless `--app`, `--url` or
    the argument of `worker` says otherwise."""

    help = "Run, inspect and change jobs: manage.py mita worker, manage.py mita jobs, …"

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command line. It ends the process with the exit code of the command."""
        words = _without_djangos_options(argv[2:])
        with project_environment():
            sys.argv = ["mita", *words]  # main() without arguments knows that it is the process
            code = main()
        flush_signals()
        sys.exit(code)

    def print_help(self, prog_name: str, subcommand: str) -> None:  # noqa: ARG002
        """Print the help of the command line."""
        grammar().print_help()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """For `call_command("mita", "jobs", "--json")`."""
        parser.add_argument("words", nargs=argparse.REMAINDER)

    def handle(self, *args: Any, words: list[str], **options: Any) -> None:  # noqa: ARG002
        """Run the command line inside a program. Raises `CommandError` if it fails."""
        with project_environment():
            code = main(words)
        flush_signals()
        if code:
            raise CommandError(f"mita {' '.join(words)} ended with {code}", returncode=code)


def flush_signals() -> None:
    """Send `task_finished` for tasks that this process has cancelled."""
    if "mita.contrib.django.signals" in sys.modules:
        from mita.contrib.django.signals import flush

        flush()


@contextmanager
def project_environment() -> Iterator[None]:
    """Until the end of the block the command line, and the processes that it starts, use the app
    of this project."""
    changed = {"MITA_APP": TARGET, "PYTHONPATH": _python_path()}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _python_path() -> str:
    """The folder of manage.py first: processes that are started find the project there."""
    paths = [sys.path[0], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.pathsep.join(dict.fromkeys(path for path in paths if path))


def _without_djangos_options(words: list[str]) -> list[str]:
    """The words without --settings and --pythonpath, which Django has applied by now."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    return parser.parse_known_args(words)[1]
