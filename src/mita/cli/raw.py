"""Writing the stored record of a job to a file: `mita show ID --raw FILE`."""

import base64
import os
from pathlib import Path

import msgspec

from mita.errors import UsageError
from mita.rules.readable import UNREADABLE
from mita.rules.words import counted

from .context import CommandContext, namespace_of, store_text
from .exits import NotFound
from .screen import Report


async def export(context: CommandContext, id: str) -> Report:
    """Write one JSON document with every part of the record in base64, and as text if it is
    text."""
    parts = await (await context.store()).raw(id)
    if parts is None:
        raise NotFound(f"job {id} was deleted just now")
    document = {"id": id, "store": store_text(context.app), "namespace": namespace_of(context.app)}
    file = Path(context.options.raw)
    _write(
        file,
        msgspec.json.format(msgspec.json.encode({**document, "parts": _encoded(parts)})) + b"\n",
    )
    size = sum(map(len, parts.values()))
    return Report(
        {"file": str(file), "parts": len(parts), "bytes": size},
        f"{counted(len(parts), 'part')}, {size} bytes: {file}",
    )


def _encoded(parts: dict[str, bytes]) -> dict[str, dict[str, str]]:
    return {
        name: {"base64": base64.b64encode(value).decode(), **_as_text(value)}
        for name, value in parts.items()
    }


def _as_text(value: bytes) -> dict[str, str]:
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {}


def _write(file: Path, text: bytes) -> None:
    """Write a new file that only its owner can read: arguments may be secret."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(text)
    except FileExistsError as error:
        raise UsageError(f"{file} exists already: name a new file") from error
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}. Name another file") from error


def hint(id: str, error: str | None) -> list[str]:
    """The lines about a record that cannot be read; none for other jobs."""
    if error is None or not error.startswith(UNREADABLE):
        return []
    return [
        "",
        (f"its record cannot be read; `mita show {id} --raw FILE` writes what is stored to a file"),
    ]
