"""The driver's protocol parser, with a fast path for messages.

The driver tries several regular expressions on every message, which is a third of what a drain
costs this side. A message is one line (`MSG subject sid [reply] size`, or `HMSG … header-size
size`) and that many bytes after it. Everything else is rare and goes to the driver's parser. Two of
three messages are the stream's answer that it has stored something: one regular expression reads
such an answer as a whole."""

import re
from typing import Any

from nats.protocol.parser import Parser

_STORED_ANSWER = (
    rb'\.(\d+)\.(\d+) \d+ \d+\r\n\{"stream":"[^"]*",(?: ?"domain":"[^"]*",)? ?"seq":(\d+)\}\r\n'
)
_MSG, _HMSG = b"MH"


class QuickParser(Parser):  # type: ignore[misc, unused-ignore]
    """Parses what a `NatsWire` receives, and calls its handlers."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._stored = re.compile(rb"(?!)").match  # matches nothing until the inbox is known

    def reset(self) -> None:
        """Forget a half message: the connection is new."""
        super().reset()
        self._rest = b""

    def expect_answers_at(self, inbox: bytes) -> None:
        """Use the fast path for answers whose subject begins with this inbox."""
        self._stored = re.compile(rb"MSG " + re.escape(inbox) + _STORED_ANSWER).match

    async def parse(self, data: bytes = b"") -> None:
        """Handle all complete messages in `data`; the rest waits for the next call."""
        data = self._rest + data if self._rest else data
        wire: Any = self.nc
        at, size = 0, len(data)
        while at < size:
            if (found := self._stored(data, at)) is not None:
                wire.take_sequence(*found.groups())
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
            handler = wire.handlers.get(sid)
            if handler is None:
                await wire.deliver_to_driver(sid, *message)
            else:
                handler(*message)
            at = after
        self._rest = data[at:]


def _message(
    data: bytes, line: list[bytes], start: int
) -> tuple[int, tuple[bytes, bytes, bytes, bytes | None], int]:
    """Returns the subscription's id, the message (subject, reply, data, headers), and where the
    next message begins. That is beyond the end of `data` if this message is incomplete."""
    end = start + int(line[-1])
    if len(line[0]) == 3:
        reply = line[3] if len(line) == 5 else b""
        return int(line[2]), (line[1], reply, data[start:end], None), end + 2
    body = start + int(line[-2])
    reply = line[3] if len(line) == 6 else b""
    return int(line[2]), (line[1], reply, data[body:end], data[start:body]), end + 2
