"""Expenses that a person approves. The job of an expense waits for days without a slot, a thread or
a connection, and goes on when the answer comes."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Struct

from mita import Depends, Job, Mita, Retry

app = Mita("sqlite:///approvals.db", retry=Retry(max_retries=5))


class Answer(Struct):
    """What the person said."""

    yes: bool
    by: str


class Bank:
    """A stand-in for the client of a bank."""

    def pay(self, to: str, euros: int, key: str) -> str:
        """Pay once for each key."""
        return f"paid {euros} euros to {to} ({key})"


@app.lifespan
def bank() -> Iterator[Bank]:
    """One client for all runs of a worker."""
    yield Bank()


@app.task(resource="employee:{employee}")
def reimburse(job: Job, employee: str, euros: int, bank: Annotated[Bank, Depends(bank)]) -> str:
    """Small sums are paid at once, larger ones after a person said yes. A week without an answer is
    a no."""
    if euros > 100:
        try:
            answer = job.wait_for_sync("approval", timeout=7 * 86_400, type=Answer)
        except TimeoutError:
            answer = Answer(yes=False, by="no one in a week")
        if not answer.yes:
            return f"refused by {answer.by}"
    return job.step_sync("pay", bank.pay, employee, euros, job.id)
