"""Code that packs and reads job records, generated from `record_layout`.

Packing a new job and making its claim run for every job, so the values must be passed by position.
The text of these functions is generated, as `collections.namedtuple` does it: a list of more than
twenty values in several places by hand goes wrong when a field is added."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.model.job import Claim, NewJob
from mita.model.time import Moment
from mita.stores.shared.record import JOB

from .lua_text import as_lua, member
from .record_layout import (
    CLIENT_FIELDS,
    FIRST_CLIENT_FIELDS,
    FIRST_FLOW_FLAG,
    FLAG_IN_RECORD,
    HEAD_FIELDS,
    LAST_LIVE_FIELD,
    LIVE_FIELDS,
    LUA_CLIENT_FIELDS,
    LUA_FLOW_FIELDS,
    OLDEST_CLIENT_FIELDS,
    fixed_type,
    live_defaults,
    live_numbers,
    live_start,
    live_types,
)

LivePart = msgspec.defstruct("LivePart", live_types(), array_like=True, gc=False)


def _function(name: str, source: str, **used: Any) -> Any:
    exec(source, used)  # noqa: S102
    return used[name]


def packer() -> Callable[[NewJob], bytes]:
    """A function that packs the client's fields of a new job; only the first ones, if the others
    all have their default."""
    first = _attributes(FIRST_CLIENT_FIELDS)
    later = CLIENT_FIELDS[len(FIRST_CLIENT_FIELDS) :]
    changed = " or ".join(f"job.{name} != default_{name}" for name in later)
    source = f"""
def pack_new_job(job):
    if {changed}:
        return pack(({first}{_attributes(later)}))
    return pack(({first}))
"""
    made: Callable[[NewJob], bytes] = _function(
        "pack_new_job",
        source,
        pack=msgspec.msgpack.Encoder().encode,
        **{f"default_{name}": JOB[name].default for name in later},
    )
    return made


def plain_packer() -> Callable[[NewJob], bytes]:
    """A function that packs the client's fields of a job which has the default in all fields behind
    the first ones."""
    source = f"""
def pack_plain_job(job):
    return pack(({_attributes(FIRST_CLIENT_FIELDS)}))
"""
    pack = msgspec.msgpack.Encoder().encode
    made: Callable[[NewJob], bytes] = _function("pack_plain_job", source, pack=pack)
    return made


def bulk_packer() -> Callable[[Sequence[NewJob]], list[bytes]]:
    """A function that packs the client's fields of jobs which have the default in all fields behind
    the first ones. It calls nothing but the encoder for each job."""
    source = f"""
def pack_plain_jobs(jobs):
    return [pack(({_attributes(FIRST_CLIENT_FIELDS)})) for job in jobs]
"""
    pack = msgspec.msgpack.Encoder().encode
    made: Callable[[Sequence[NewJob]], list[bytes]] = _function(
        "pack_plain_jobs", source, pack=pack
    )
    return made


def _attributes(names: Sequence[str]) -> str:
    return "".join(f"job.{name}, " for name in names)


def first_claim_maker(
    decode_other_version: Callable[[bytes], Any],
) -> Callable[[bytes, str, Moment], Claim]:
    """A function of a fixed part, its queue and the time: the claim of a job without a live part.
    Its token is the time. The flag of a job with gates or a group says that the record has all
    fields; other jobs have the short one, or one that does not have today's shape (decoded by
    `decode_other_version`)."""
    source = f"""
def first_claim(raw, queue, at):
    if raw[{FLAG_IN_RECORD.start}:{FLAG_IN_RECORD.stop}] >= {chr(FIRST_FLOW_FLAG).encode()!r}:
        return long_claim(raw, queue, at)
    try:
        {_values(FIRST_CLIENT_FIELDS)} = decode(raw)
    except DecodeError:
        return long_claim(raw, queue, at)
    return Claim({_claim_arguments(FIRST_CLIENT_FIELDS)})

def long_claim(raw, queue, at):
    try:
        {_values(CLIENT_FIELDS)} = decode_long(raw)
    except DecodeError:
        {_values(CLIENT_FIELDS)} = decode_other_version(raw)
    return Claim({_claim_arguments(CLIENT_FIELDS)})
"""
    made: Callable[[bytes, str, Moment], Claim] = _function(
        "first_claim",
        source,
        Claim=Claim,
        decode=msgspec.msgpack.Decoder(fixed_type(FIRST_CLIENT_FIELDS)).decode,
        decode_long=msgspec.msgpack.Decoder(fixed_type()).decode,
        decode_other_version=decode_other_version,
        DecodeError=msgspec.DecodeError,
        **{f"default_{field.name}": field.default for field in msgspec.structs.fields(Claim)},
    )
    return made


def _values(client: tuple[str, ...]) -> str:
    """The variables into which a fixed part with these client's fields is unpacked."""
    return f"{', '.join(HEAD_FIELDS)}, ({', '.join(client)})"


def _claim_arguments(client: tuple[str, ...]) -> str:
    """The arguments of `Claim`: these variables, and the defaults of the other fields."""
    known = {name: name for name in (*HEAD_FIELDS, *client, "at", "queue")}
    known |= {"id": "handle[9:].decode()", "token": "at", "ref": "handle"}
    names = Claim.__struct_fields__
    return ", ".join(known.get(name, f"default_{name}") for name in names)


def later_claim_maker() -> Callable[[Claim, bytes, bytes | None], Claim]:
    """A function of a first claim, a live part and the progress: the claim of a job that has run
    before."""
    values = [
        f"{name}=claim.{name} if live.{name} is False else live.{name}"
        if default is False
        else f"{name}=live.{name}"
        for name, default in live_defaults().items()
        if name in Claim.__struct_fields__
    ]
    source = f"""
def later_claim(claim, raw, progress):
    live = decode(raw)
    return replace(claim, progress=progress, {", ".join(values)})
"""
    decode = msgspec.msgpack.Decoder(LivePart).decode
    made: Callable[[Claim, bytes, bytes | None], Claim] = _function(
        "later_claim", source, decode=decode, replace=replace
    )
    return made


def lua_live_code() -> str:
    """The Lua functions that pack and read live parts."""
    values = ", ".join(member("r", name) for name in LIVE_FIELDS[:-1])
    last = member("r", LAST_LIVE_FIELD)
    named = ", ".join(f"['{name}'] = t[{at}]" for at, name in enumerate(LIVE_FIELDS, 1))
    return f"""\
local LIVE_NUMBERS = {as_lua(live_numbers(may_be_false=False))}
local LIVE_NUMBERS_OR_FALSE = {as_lua(live_numbers(may_be_false=True))}
local LIVE_START = '{_lua_bytes(live_start())}'
local function pack_live(r) return cmsgpack.pack({{ {values}, {last} or nil }}) end
local function live_fields(t) return {{ {named} }} end
local function untouched() return {as_lua(live_defaults())} end
"""


def _lua_bytes(raw: bytes) -> str:
    return "".join(f"\\{byte:03}" for byte in raw)


def lua_client_code() -> str:
    """The Lua functions that read the client's fields of a fixed part."""
    client = ", ".join(member("r", name) for name in LUA_CLIENT_FIELDS)
    flow = ", ".join(member("r", name) for name in LUA_FLOW_FIELDS)
    later = CLIENT_FIELDS[OLDEST_CLIENT_FIELDS:]
    # `unpack_limit` returns a position before the values
    found = ", ".join(f"t[{later.index(name) + 2}]" for name in LUA_FLOW_FIELDS)
    return f"""\
local function read_client_fields(r, fixed, at)
  local _
  _, {client} = cmsgpack.unpack_limit(fixed, {len(LUA_CLIENT_FIELDS)}, at)
end
local function read_flow_fields(r, fixed, at)
  local t = {{ cmsgpack.unpack_limit(fixed, {len(later)}, at) }}
  {flow} = {found}
end
"""
