"""A program that does not use `app.acting` does not pay for the audit log."""

from mita import Mita
from mita.testing import lab

from .test_no_cost import calls


async def test_an_enqueue_and_a_run_never_reach_the_code_of_the_audit_log(app: Mita) -> None:
    @app.task
    async def task() -> None: ...

    async with lab(app) as it:
        with calls() as called:
            await task.enqueue()
            await app.enqueue_many([task.call(), task.call()])
            await it.drain()
        assert "enqueue.py" in called
        assert not {"acting.py", "audit.py"} & set(called)
        with calls() as called:
            await app.pause("mail")
        assert "audit.py" not in called
        with calls() as called, app.acting("ada"):
            await task.enqueue()
        assert {"acting.py", "audit.py"} <= set(called)
