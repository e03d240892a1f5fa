"""Reading the protocol: the driver's parser, with a short way for the messages that are most of
what comes in.

The driver tries several regular expressions on every message, which is a third of what a drain
costs this side. A message is one line (`MSG subject sid [reply] size`, or `HMSG … header-size
size`) and so many bytes after it; everything else on the wire is rare, and left to the driver. Two
of three messages are the stream's word that it has stored something for us: all there is to know of
such a one is found in one step."""

import re
from typing import Any

from nats.protocol.parser import Parser

_STORED = (
    rb'\.(\d+)\.(\d+) \d+ \d+\r\n\{"stream":"[^"]*",(?: ?"domain":"[^"]*",)? ?"seq":(\d+)\}\r\n'
)
_MSG, _HMSG = b"MH"


class QuickParser(Parser):  # type: ignore[misc, unused-ignore]
    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._stored = re.compile(rb"(?!)").match  # nothing, until we know where answers come in

    def reset(self) -> None:
        super().reset()
        self._rest = b""

    def expect_answers_at(self, inbox: bytes) -> None:
        self._stored = re.compile(rb"MSG " + re.escape(inbox) + _STORED).match

    async def parse(self, data: bytes = b"") -> None:
        data = self._rest + data if self._rest else data
        wire: Any = self.nc
        at, size = 0, len(data)
        while at < size:
            if (found := self._stored(data, at)) is not None:
                wire.is_stored(*found.groups())
                at = found.end()
                continue
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            if data[at] not in (_MSG, _HMSG):
                await super().parse(data[at : end + 2])
                at = end + 2
                continue
            sid, message, after = _message(data, data[at:end].split(b" "), end + 2)
            if after > size:
                break
            hear = wire.hears.get(sid)
            if hear is None:
                await wire.pass_on(sid, *message)
            else:
                hear(*message)
            at = after
        self._rest = data[at:]


def _message(
    data: bytes, line: list[bytes], start: int
) -> tuple[int, tuple[bytes, bytes, bytes, bytes | None], int]:
    """For whom it is, what it is, and where the next one begins (beyond the end when this one has
    not come in whole)."""
    end = start + int(line[-1])
    if len(line[0]) == 3:
        return (
            int(line[2]),
            (line[1], line[3] if len(line) == 5 else b"", data[start:end], None),
            end + 2,
        )
    body = start + int(line[-2])
    return (
        int(line[2]),
        (line[1], line[3] if len(line) == 6 else b"", data[body:end], data[start:body]),
        end + 2,
    )
