"""Reading the protocol: the driver's parser, with a short way for the messages that are most of what comes in.

The driver tries several regular expressions on every message, which is a third of what a drain costs this side. A message is
one line (`MSG subject sid [reply] size`, or `HMSG … header-size size`) and so many bytes after it; everything else on the
wire is rare, and left to the driver.
"""

from typing import Any

from nats.protocol.parser import Parser


class QuickParser(Parser):  # type: ignore[misc, unused-ignore]
    def reset(self) -> None:
        super().reset()
        self._rest = b""

    async def parse(self, data: bytes = b"") -> None:
        data = self._rest + data if self._rest else data
        at, size = 0, len(data)
        while at < size:
            end = data.find(b"\r\n", at)
            if end < 0:
                break
            if data.startswith((b"MSG ", b"HMSG "), at):
                after = await self._message(data, data[at:end].split(b" "), end + 2)
                if after < 0:
                    break
                at = after
            else:
                await super().parse(data[at : end + 2])
                at = end + 2
        self._rest = data[at:]

    async def _message(self, data: bytes, line: list[bytes], start: int) -> int:
        """Hand one message over; where the next thing begins, or -1 when it has not come in whole."""
        end = start + int(line[-1])
        if end + 2 > len(data):
            return -1
        has_headers = line[0] == b"HMSG"
        body = start + int(line[-2]) if has_headers else start
        reply = line[3] if len(line) - has_headers == 5 else b""
        wire: Any = self.nc
        headers = data[start:body] if has_headers else None
        hear = wire.hears.get(int(line[2]))
        if hear is None:
            await wire.pass_on(int(line[2]), line[1], reply, data[body:end], headers)
        else:
            hear(line[1], reply, data[body:end], headers)
        return end + 2
