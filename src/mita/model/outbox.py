"""The rows of an outbox: jobs in a database of the user's own that are not in the store yet."""

from enum import StrEnum

from msgspec import Struct

from .time import Wait


class RowState(StrEnum):
    """The state of a row of an outbox. `new`: it waits for the relay. `placed`: its job is in the
    store and may not start yet. `parked`: the store refused its job."""

    NEW = "new"
    PLACED = "placed"
    PARKED = "parked"


class OutboxRow(Struct, frozen=True):
    """A row of an outbox. `job` is the packed `NewJob`; `age` is how long ago the row was written;
    `error` is why it is parked."""

    seq: int
    id: str
    task: str
    queue: str
    job: str
    state: RowState
    age: Wait
    error: str | None = None


class OutboxView(Struct, frozen=True):
    """How many rows of an outbox wait for the relay, how old the oldest of them is, and how many
    rows are parked."""

    rows: int
    oldest: Wait
    parked: int
