"""What it costs to tell jobs of a flow that others have ended: counted in statements, because the
transaction keeps all other writers of the file waiting."""

from pathlib import Path
from typing import Any

from mita import Mita
from mita.model.flow import Arrival
from mita.model.outcome import Answer
from mita.rules.flow import step_id
from mita.stores.sqlite import amend
from mita.stores.sqlite.context import SqliteContext


async def statements_for(path: Path, members: int) -> int:
    """How many statements it takes that so many members tell the jobs that gather them."""
    app = Mita(f"sqlite:///{path}")

    @app.task
    async def one(n: int) -> int:
        return n

    @app.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    async with app:
        run = await app.group([one.call(n) for n in range(members)]).then(total.call).enqueue()
        store: Any = await app._store()
        arrivals = [
            Arrival(
                "default", step_id(run.id, members + 2 + n // 100), step_id(run.id, n), b"x", 100
            )
            for n in range(members)
        ]
        seen: list[str] = []

        def traced(context: SqliteContext) -> list[Answer]:
            context.connection.set_trace_callback(seen.append)
            try:
                return amend.arrive(context, arrivals)
            finally:
                context.connection.set_trace_callback(None)

        assert set(await store.writer.call(traced)) == {Answer.DONE}
        assert set(await store.arrive(arrivals)) == {Answer.TAKEN}
    return len(seen)


async def test_arrivals_take_a_few_statements_for_many(tmp_path: Path) -> None:
    few = await statements_for(tmp_path / "few.db", 256)
    many = await statements_for(tmp_path / "many.db", 1024)
    assert few <= 5
    assert many <= 5
