"""Notifying stores in other processes: a datagram on a local socket, one socket for each waiting
store.

The sockets are in a folder of this user in the system's temporary folder, named after the database
file. If there can be no such folder, stores are not notified and rely on polling."""

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
from typing import Protocol

from mita import forks
from mita.stores.shared.wakeups import ANY, WakeupBuffer

_BIND_TRIES = 5
_numbers = itertools.count()
_MESSAGE_BYTES = 4096


class HasNotifier(Protocol):
    """A store with a notifier."""

    @property
    def notifier(self) -> "SqliteNotifier": ...


async def wait(
    store: HasNotifier, queues: Collection[str] | None, timeout: float
) -> frozenset[str]:
    """Wait for a notification of this or another store of the file."""
    return await store.notifier.wait(queues, timeout)


class SqliteNotifier:
    """Sends notifications to other stores of the file, and receives theirs."""

    def __init__(self, path: Path) -> None:
        self._folder = _folder(path)
        self._address: Path | None = None
        self._socket: socket.socket | None = None
        self._wakeups = WakeupBuffer()
        forks.left(self, SqliteNotifier._descriptors)

    def _descriptors(self) -> list[int]:
        return [] if self._socket is None else [self._socket.fileno()]

    def notify(self, topics: Collection[str]) -> None:
        """Notify every waiting store. Called on the writing thread, after the commit."""
        if self._folder is None:
            return
        message = "\n".join(topics).encode()
        message = message if len(message) <= _MESSAGE_BYTES else ANY.encode()
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for address in self._folder.iterdir():
                try:
                    sender.sendto(message, str(address))
                except ConnectionRefusedError:  # its process died and left it behind
                    with suppress(OSError):
                        address.unlink()
                except OSError:  # its buffer is full: it has notifications to read
                    continue

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a notification of one of these queues (None: of any). Returns the topics; empty
        after `timeout` seconds."""
        if self._socket is None and self._bind():
            # notifications before this were not received, so all queues may have changed
            return frozenset(queues or {ANY})
        return await self._wakeups.wait(queues, timeout)

    def _bind(self) -> bool:
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
        asyncio.get_running_loop().add_reader(listener.fileno(), self._receive)
        return True

    def _receive(self) -> None:
        with suppress(BlockingIOError):
            while self._socket is not None:
                self._wakeups.add(self._socket.recv(_MESSAGE_BYTES).decode().split("\n"))

    def close(self) -> None:
        """Close the socket and delete its file."""
        if self._socket is not None:
            with suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        if self._address is not None:
            with suppress(OSError):
                self._address.unlink()
                self._address.parent.rmdir()  # empty: this was the last socket


def _bound(listener: socket.socket, address: Path) -> bool:
    """Bind the socket. Another process may delete the folder between its creation and the bind, so
    this is tried several times."""
    for _ in range(_BIND_TRIES):
        with suppress(OSError):
            address.parent.mkdir(mode=0o700, exist_ok=True)
            listener.bind(str(address))
            return True
    return False


def _folder(path: Path) -> Path | None:
    """The folder for the sockets of this database file, inside a folder that only this user can
    write to. It may not exist yet. None if the system has no such sockets."""
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
