"""Tags, metadata and ids that a caller gives to a job: checked once, when they come in."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.errors import UsageError

from .names import MOST_KEY_CHARACTERS
from .options import options_of

MOST_TAGS = 16
METADATA_BYTES = 4096
MOST_ID_CHARACTERS = 64
_ID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MOST_ID_CHARACTERS - 1}}}")
_PLAIN = (str, bool, int, float, type(None))
_pack = msgspec.msgpack.Encoder().encode


def check_tags(tags: Any) -> tuple[str, ...]:
    """Returns the tags of a task or a job, each once. Raises UsageError unless they are a list of
    at most 16 printable texts. None means no tags."""
    if tags is None:
        return ()
    if isinstance(tags, str):
        raise UsageError(f"tags={tags!r}: give a list, [{tags!r}]")
    if not isinstance(tags, list | tuple | set | frozenset):
        raise UsageError(f"tags={tags!r}: give a list of texts, for example ['customer:42']")
    found = tuple(dict.fromkeys(check_tag(tag) for tag in tags))
    if len(found) > MOST_TAGS:
        raise UsageError(
            f"tags: {len(found)} were given, and a job has at most {MOST_TAGS}: leave some out, or "
            "put what you do not search for into metadata="
        )
    return tuple(sorted(found)) if isinstance(tags, set | frozenset) else found


def check_tag(tag: Any) -> str:
    """Returns one tag. Raises UsageError unless it is printable text of at most 250 characters."""
    most = MOST_KEY_CHARACTERS
    if not isinstance(tag, str) or not 0 < len(tag) <= most or not tag.isprintable():
        raise UsageError(f"tag {tag!r} is not usable: a tag is 1 to {most} printable characters")
    return tag


def check_metadata(metadata: Any) -> bytes:
    """Returns the metadata of a job as JSON; nothing for None and for an empty dict. Raises
    UsageError unless it is a dict that JSON can hold in at most 4,096 bytes."""
    if metadata is None:
        return b""
    if not isinstance(metadata, Mapping):
        raise UsageError(
            f"metadata={metadata!r}: give a dict, for example metadata={{'request': 'r-17'}}"
        )
    try:
        packed = msgspec.json.encode(_checked(metadata, "metadata"))
    except (RecursionError, UnicodeEncodeError) as error:
        raise UsageError(f"metadata cannot be stored as JSON: {error}") from error
    if len(packed) > METADATA_BYTES:
        raise UsageError(
            f"metadata takes {len(packed):,} bytes as JSON, and the limit is {METADATA_BYTES:,}: "
            "it is for a few words about the job; data belongs into the arguments"
        )
    return packed if metadata else b""


def _checked(value: Any, where: str) -> Any:
    """The value, if JSON gives it back as it is."""
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise UsageError(f"{where}: the key {name!r} is no text, and JSON has only those")
        return {name: _checked(one, f"{where}[{name!r}]") for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_checked(one, f"{where}[{at}]") for at, one in enumerate(value)]
    if type(value) not in _PLAIN or (isinstance(value, float) and not math.isfinite(value)):
        raise UsageError(
            f"{where} is {value!r}, of type {type(value).__qualname__}: metadata is JSON, so give "
            "text, numbers, true, false, None, lists and dicts of these"
        )
    return value


def read_metadata(packed: bytes) -> dict[str, Any]:
    """Returns the metadata of a job as a new dict. Metadata that cannot be read is empty: a job is
    never lost because of it."""
    try:
        found = msgspec.json.decode(packed) if packed else {}
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def check_id(id: Any) -> str | None:
    """Returns the id that a caller chose for a job. Raises UsageError unless it is usable: ids
    with a point belong to the steps of flows and to child jobs."""
    if id is None:
        return None
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise UsageError(
            f"id={id!r} is not usable: use 1 to {MOST_ID_CHARACTERS} of A-Z a-z 0-9 _ - and begin "
            "with a letter or a digit"
        )
    return id


@lru_cache(maxsize=1024)
def with_tags(packed: bytes, tags: tuple[str, ...]) -> bytes:
    """Returns the packed options of a job with these tags."""
    return _pack(replace(options_of(packed), tags=tags))
