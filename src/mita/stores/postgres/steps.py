"""What a verb is written in: steps, each some statements to run and their answers, driven by
whoever has a connection.

    rows, = yield Step(ask("find", ids=…))

The same steps run on our own connections (in pipelines: one round trip for all statements of a
step) and on a user's, sync or async, of whatever library (one by one, inside the user's
transaction)."""

from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .watermarks import Marks

T = TypeVar("T")
Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = list[Row]


class Ask(NamedTuple):
    """One statement, by its name, and its values. `text` stands in for a statement that is made on
    the spot."""

    name: str
    values: dict[str, Any]
    text: str | None = None


def ask(name: str, /, **values: Any) -> Ask:
    return Ask(name, values)


class Step:
    """Statements that need not wait for each other's answers. `last`: the transaction ends with
    them; what is asked afterwards is a transaction of its own. Not `synced`: its commit does not
    wait for the disk, so a crash of the server may undo it; whoever says so says what that would
    mean. `still`: they only look, and all see the same moment."""

    __slots__ = ("asks", "last", "still", "synced")

    def __init__(
        self, *asks: Ask | None, last: bool = False, synced: bool = True, still: bool = False
    ) -> None:
        self.asks = [one for one in asks if one is not None]
        self.last = last
        self.synced = synced
        self.still = still


Steps: TypeAlias = Generator[Step, list[Rows], T]


class Act:
    """One call of a verb: whom to wake when it is done, and whether an earlier try may have been
    done already."""

    __slots__ = ("marks", "namespace", "queues", "topics", "transaction", "tried", "yours")

    def __init__(
        self,
        namespace: str,
        marks: Marks,
        queues: set[str],
        *,
        tried: bool = False,
        yours: bool = False,
    ) -> None:
        self.namespace = namespace
        self.marks = marks
        self.queues = queues  # that the database surely knows
        self.tried = tried
        self.topics: set[str] = set()
        self.yours = yours  # inside a transaction of the user's, which may be undone
        self.transaction: str | None = None  # its number, if it was asked for
