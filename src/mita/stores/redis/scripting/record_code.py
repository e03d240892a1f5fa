"""Code that packs and reads job records, generated from `record_layout`.

Packing a new job and making its claim run for every job, so the values must be passed by position.
The text of these functions is generated, as `collections.namedtuple` does it: a list of more than
twenty values in several places by hand goes wrong when a field is added."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.model.job import Claim, NewJob
from mita.model.time import Moment

from .lua_text import as_lua, member
from .record_layout import (
    CLIENT_FIELDS,
    HEAD_FIELDS,
    LIVE_FIELDS,
    LUA_CLIENT_FIELDS,
    LUA_FLOW_FIELDS,
    OLDEST_CLIENT_FIELDS,
    fixed_type,
    live_defaults,
    live_numbers,
    live_types,
)

LivePart = msgspec.defstruct("LivePart", live_types(), array_like=True, gc=False)


def _function(name: str, source: str, **used: Any) -> Any:
    exec(source, used)  # noqa: S102
    return used[name]


def packer() -> Callable[[NewJob], bytes]:
    """A function that packs the client's fields of a new job."""
    values = "".join(f"job.{name}, " for name in CLIENT_FIELDS)
    source = f"def pack_new_job(job):\n    return pack(({values}))\n"
    made: Callable[[NewJob], bytes] = _function(
        "pack_new_job", source, pack=msgspec.msgpack.Encoder().encode
    )
    return made


def first_claim_maker(
    decode_other_version: Callable[[bytes], Any],
) -> Callable[[bytes, str, Moment], Claim]:
    """A function of a fixed part, its queue and the time: the claim of a job without a live part.
    Its token is the time. A record that does not have today's shape is decoded by
    `decode_other_version`."""
    known = {name: name for name in (*HEAD_FIELDS, *CLIENT_FIELDS, "at", "queue")}
    known |= {"id": "handle[9:].decode()", "token": "at", "ref": "handle"}
    fields = msgspec.structs.fields(Claim)
    arguments = ", ".join(known.get(field.name, f"default_{field.name}") for field in fields)
    values = f"{', '.join(HEAD_FIELDS)}, ({', '.join(CLIENT_FIELDS)})"
    source = f"""
def first_claim(raw, queue, at):
    try:
        {values} = decode(raw)
    except ValidationError:
        {values} = decode_other_version(raw)
    return Claim({arguments})
"""
    made: Callable[[bytes, str, Moment], Claim] = _function(
        "first_claim",
        source,
        Claim=Claim,
        decode=msgspec.msgpack.Decoder(fixed_type()).decode,
        decode_other_version=decode_other_version,
        ValidationError=msgspec.ValidationError,
        **{f"default_{field.name}": field.default for field in fields},
    )
    return made


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


def lua_record_code() -> str:
    """The Lua functions that pack and read live parts, and read the client's fields."""
    defaults = live_defaults()
    values = ", ".join(member("r", name) for name in LIVE_FIELDS)
    named = ", ".join(f"['{name}'] = t[{at}]" for at, name in enumerate(LIVE_FIELDS, 1))
    client = ", ".join(member("r", name) for name in LUA_CLIENT_FIELDS)
    flow = ", ".join(member("r", name) for name in LUA_FLOW_FIELDS)
    later = CLIENT_FIELDS[OLDEST_CLIENT_FIELDS:]
    # `unpack_limit` returns a position before the values
    found = ", ".join(f"t[{later.index(name) + 2}]" for name in LUA_FLOW_FIELDS)
    return f"""\
local LIVE_NUMBERS = {as_lua(live_numbers(may_be_false=False))}
local LIVE_NUMBERS_OR_FALSE = {as_lua(live_numbers(may_be_false=True))}
local function pack_live(r) return cmsgpack.pack({{ {values} }}) end
local function live_fields(t) return {{ {named} }} end
local function untouched() return {as_lua(defaults)} end
local function read_client_fields(r, fixed, at)
  local _
  _, {client} = cmsgpack.unpack_limit(fixed, {len(LUA_CLIENT_FIELDS)}, at)
end
local function read_flow_fields(r, fixed, at)
  local t = {{ cmsgpack.unpack_limit(fixed, {len(later)}, at) }}
  {flow} = {found}
end
"""
