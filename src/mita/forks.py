"""What a process does about its child when it forks.

A forked child has a copy of the memory and all open files of its parent, but none of its threads. A
connection of the parent must not be spoken on by the child, and not be closed by it either: both
share it. So each part that owns something registers here:

- `guarded(lock)`: the lock is taken before a fork and released after it on both sides, so the child
  never finds it taken;
- `paused(owner)`: the owner stops before a fork and continues afterwards, because what it uses does
  not survive a fork;
- `left(owner, descriptors)`: in the child, its files and sockets are released; the parent keeps
  them;
- `renewed(owner, begin)`: in the child, `begin(owner)` lets it start anew at its next use.

Owners are held weakly. `subprocess` does not run any of this, and does not need it.
"""

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

T = TypeVar("T")
FORK_LOCK_TIMEOUT_S = 10.0  # seconds that a fork waits for a lock


class Pausable(Protocol):
    """Something that stops before a fork and continues after it."""

    def pause(self) -> None:
        """In the parent: begin to stop."""

    def is_paused(self) -> None:
        """In the parent: wait until it has stopped."""

    def go_on(self, *, in_child: bool) -> None:
        """On both sides, after the fork."""


_forking = threading.Lock()
_changing = threading.Lock()
_locks: WeakSet[Any] = WeakSet()
_paused: WeakSet[Any] = WeakSet()
_left: WeakKeyDictionary[Any, Callable[[Any], Iterable[int]]] = WeakKeyDictionary()
_renewed: WeakKeyDictionary[Any, Callable[[Any], None]] = WeakKeyDictionary()

_taken: list[Any] = []
_stopped: list[Pausable] = []
_keep: list[object] = []  # what a child inherited and must never use, nor clean up


def guarded(lock: T) -> T:
    """Register a lock: it is taken before a fork and released after it, so the child never finds it
    taken. Returns the lock."""
    with _changing:
        _locks.add(lock)
    return lock


def paused(owner: Pausable) -> None:
    """Register an owner that must stop before a fork."""
    with _changing:
        _paused.add(owner)


def left(owner: T, descriptors: Callable[[T], Iterable[int]]) -> None:
    """Register the open files and sockets of an owner. `descriptors` returns their numbers; numbers
    below 0 are ignored."""
    with _changing:
        _left[owner] = descriptors


def renewed(owner: T, begin: Callable[[T], None]) -> None:
    """Register a function that is called with the owner in a forked child."""
    with _changing:
        _renewed[owner] = begin


def number_of(transport: Any) -> list[int]:
    """Return the descriptor of an asyncio transport in a list; an empty list if it has none."""
    socket = None if transport is None else transport.get_extra_info("socket")
    return [] if socket is None else [socket.fileno()]


def keep_for_ever(*inherited: object) -> None:
    """In a child: hold these objects, so that nothing ever cleans up what belongs to the parent."""
    _keep.extend(inherited)


# -------------------------------------------------------- around the fork, in the thread that forks


def _before() -> None:
    _forking.acquire()
    _changing.acquire()
    while begun := [owner for owner in list(_paused) if owner not in _stopped]:
        _changing.release()  # on its way to a stop, one may still register something
        for owner in begun:
            owner.pause()
        for owner in begun:
            owner.is_paused()
        _stopped.extend(begun)
        _changing.acquire()
    _taken[:] = [lock for lock in list(_locks) if lock.acquire(timeout=FORK_LOCK_TIMEOUT_S)]


def _after_in_parent() -> None:
    _release()
    for owner in _stopped:
        owner.go_on(in_child=False)
    _stopped.clear()
    _changing.release()
    _forking.release()


def _after_in_child() -> None:
    _release()
    _changing.release()
    keep_for_ever(*_left)
    _let_go_of([number for owner, descriptors in _left.items() for number in descriptors(owner)])
    _left.clear()
    for owner in _stopped:
        owner.go_on(in_child=True)
    _stopped.clear()
    _paused.clear()
    for begin_with, begin in list(_renewed.items()):
        begin(begin_with)
    _forking.release()


def _release() -> None:
    for lock in _taken:
        lock.release()
    _taken.clear()


def _let_go_of(descriptors: Iterable[int]) -> None:
    """Replace each descriptor with the empty file. Closing it would free its number for another
    file, and the copies of the parent's objects still know the number."""
    if not (numbers := [number for number in descriptors if number >= 0]):
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in numbers:
        with suppress(OSError):
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
