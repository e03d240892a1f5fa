"""`python -m mita.contrib.celery FILE…` shows how files that use Celery look with Mita."""

import argparse
import sys
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

from mita.errors import UsageError


def main(argv: Sequence[str] | None = None) -> int:
    """Print the changes and what a person has to look at; with `--write`, change the files."""
    parser = argparse.ArgumentParser("python -m mita.contrib.celery", description=main.__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--write", action="store_true", help="change the files")
    options = parser.parse_args(argv)
    try:
        from .translate import translate
    except ImportError:
        print("this needs libcst: pip install 'mita[celery]'", file=sys.stderr)
        return 2
    failed = False
    for file in options.files:
        try:
            before = file.read_text()
            found = translate(before)
        except (OSError, UnicodeDecodeError, UsageError) as error:
            print(f"{file}: {error}", file=sys.stderr)
            failed = True
            continue
        names = str(file), f"{file} (Mita)"
        changes = unified_diff(before.splitlines(True), found.code.splitlines(True), *names)
        sys.stdout.writelines(changes)
        for note in found.notes:
            print(f"{file}:{note.line}: {note.text}")
        if options.write and found.code != before:
            file.write_text(found.code)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
