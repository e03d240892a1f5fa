"""Waking sleepers in other processes: a datagram on a local socket, one socket per waiting store.

The sockets live in a folder of this user's in the system's temporary folder, named after the
database file. Where that cannot be had, nobody is woken and the slow poll has to do."""

import asyncio
import hashlib
import itertools
import os
import socket
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from mita import forks
from mita.stores.shared.wakeups import ANY, WakeupBuffer

_numbers = itertools.count()
_LONGEST = 4096


class Notifier:
    """Rings for others, and hears the others ring."""

    def __init__(self, path: Path) -> None:
        self._folder = _folder(path)
        self._address: Path | None = None
        self._socket: socket.socket | None = None
        self._hearing = WakeupBuffer()
        forks.left(self, Notifier._descriptors)

    def _descriptors(self) -> list[int]:
        return [] if self._socket is None else [self._socket.fileno()]

    def ring(self, topics: Collection[str]) -> None:
        """Tell every listener. Called from the writing thread, after the commit."""
        if self._folder is None:
            return
        message = "\n".join(topics).encode()
        message = message if len(message) <= _LONGEST else ANY.encode()
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for address in self._folder.iterdir():
                self._send(sender, address, message)

    @staticmethod
    def _send(sender: socket.socket, address: Path, message: bytes) -> None:
        try:
            sender.sendto(message, str(address))
        except ConnectionRefusedError:  # its owner died without tidying up
            with suppress(OSError):
                address.unlink()
        except OSError:  # its mailbox is full: it is being woken already
            return

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        if self._socket is None and self._listen():
            # what happened before we listened was not heard: look once
            return frozenset(queues or {ANY})
        return await self._hearing.wait(queues, timeout)

    def _listen(self) -> bool:
        if self._folder is None:
            return False
        address = self._folder / f"{os.getpid()}-{next(_numbers)}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.setblocking(False)
        if not _bound(listener, address):
            listener.close()
            self._folder = None
            return False
        self._socket, self._address = listener, address
        asyncio.get_running_loop().add_reader(listener.fileno(), self._hear)
        return True

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            while self._socket is not None:
                self._hearing.hear(self._socket.recv(_LONGEST).decode().split("\n"))

    def close(self) -> None:
        if self._socket is not None:
            with suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._address is not None:
            with suppress(OSError):
                self._address.unlink()
                self._address.parent.rmdir()  # the last to leave takes the folder along


def _bound(listener: socket.socket, address: Path) -> bool:
    """The folder may be taken away by another that leaves, between its making and our taking a
    place in it: try again."""
    for _ in range(5):
        with suppress(OSError):
            address.parent.mkdir(mode=0o700, exist_ok=True)
            listener.bind(str(address))
            return True
    return False


def _folder(path: Path) -> Path | None:
    """A folder that only this user can write to; None where there is no such thing."""
    if not hasattr(socket, "AF_UNIX") or not hasattr(os, "getuid"):
        return None
    mine = Path(tempfile.gettempdir()) / f"mita-{os.getuid()}"
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:16]
    try:
        mine.mkdir(mode=0o700, exist_ok=True)
        found = mine.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
            return None
    except OSError:
        return None
    return mine / name
