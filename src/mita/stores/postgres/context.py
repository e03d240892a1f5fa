"""What a verb works with: its context, and the round trips in which it is written.

    [rows] = yield RoundTrip(query("find", ids=…))

A verb is a generator. It yields round trips, each some statements that need not wait for each
other's answers, and receives the rows of each. The same verb runs on our own connections (a
pipeline: all statements of a round trip in one message) and on a user's connection, sync or async,
of any supported library (one by one, inside the user's transaction)."""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakSet

from mita.ports.clock import Clock
from mita.ports.store import SILENCE_S

from .codec import Rows
from .limits.hints import ClaimHints
from .server.statements import PostgresStatements
from .throughput.watermarks import Watermarks
from .transaction.identity import DatabaseIdentity

T = TypeVar("T")


class Query(NamedTuple):
    """One statement by its name, and its values. `text` replaces the file for a statement that is
    made on the spot."""

    name: str
    values: dict[str, Any]
    text: str | None = None


def query(name: str, /, **values: Any) -> Query:
    """The statement `sql/<name>.sql` with these values."""
    return Query(name, values)


class RoundTrip:
    """Statements that need not wait for each other's answers.

    `last` ends the transaction with them; what follows is a transaction of its own. `first` begins
    one: what came before is committed in the same message. Without
    `synced` the commit does not wait for the disk, so a crash of the server may undo it; the caller
    says why that does no harm. `snapshot` is for reads: all statements see the same moment."""

    __slots__ = ("first", "last", "queries", "snapshot", "synced")

    def __init__(
        self,
        *queries: Query | None,
        first: bool = False,
        last: bool = False,
        synced: bool = True,
        snapshot: bool = False,
    ) -> None:
        self.queries = [one for one in queries if one is not None]
        self.first = first
        self.last = last
        self.synced = synced
        self.snapshot = snapshot


RoundTrips: TypeAlias = Generator[RoundTrip, list[Rows], T]


class StoreState:
    """What all connections of one store share."""

    def __init__(
        self, params: dict[str, Any], statements: PostgresStatements, clock: Clock | None
    ) -> None:
        self.params = params  # for libpq
        self.statements = statements
        self.clock = clock
        self.silence = SILENCE_S
        self.watermarks = Watermarks()
        self.hints = ClaimHints()
        self.known_queues: set[str] = set()  # committed to the table of queues
        self.checked: WeakSet[Any] = WeakSet()  # users' connections that can write jobs
        self.identity = DatabaseIdentity()
        self.notify: Callable[[set[str]], None] = lambda _: None

    def bound(self, one: Query) -> tuple[str, dict[str, Any]]:
        """A statement's text and values."""
        values = one.values if self.clock is None else {**one.values, "now": self.clock.now()}
        return one.text or self.statements[one.name], values


class PostgresContext:
    """One call of a verb: the store's state, and what the verb leaves for the time after its
    commit."""

    __slots__ = (
        "hints",
        "in_user_transaction",
        "known_queues",
        "maybe_done",
        "new_queues",
        "pooled",
        "statements",
        "topics",
        "transaction_id",
        "watermarks",
    )

    def __init__(
        self, state: StoreState, *, maybe_done: bool = False, in_user_transaction: bool = False
    ) -> None:
        self.statements = state.statements
        self.watermarks = state.watermarks
        self.hints = state.hints
        # what a user's transaction writes may be undone, so there nothing is taken for granted
        self.known_queues = set() if in_user_transaction else state.known_queues
        self.maybe_done = maybe_done  # an earlier attempt may have been committed
        self.in_user_transaction = in_user_transaction
        self.pooled = False  # whether a pooler stands before the server
        self.topics: set[str] = set()  # to notify after the commit
        self.new_queues: set[str] = set()  # in the table of queues after the commit
        self.transaction_id: str | None = None  # of the user's transaction, where it is needed
