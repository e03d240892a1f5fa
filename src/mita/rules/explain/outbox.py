"""Why a job does not run that is still in the outbox."""

from mita.model.outbox import OutboxRow, RowState
from mita.rules.display import span

from .evidence import APP, Reason, ReasonCode, advise


def explain_row(row: OutboxRow) -> list[Reason]:
    """Return why the job of this row is not in the store, or may not start there."""
    evidence = {"state": row.state.value, "age_ms": row.age, "task": row.task, "queue": row.queue}
    if row.state is RowState.PARKED:
        return [
            Reason(
                ReasonCode.PARKED,
                f"it is parked in the outbox: the store refused it: {row.error}",
                evidence=evidence,
                **advise("remove the cause and let the relay try again", "outbox", "retry", row.id),
            )
        ]
    text = f"it is in the outbox since {span(row.age)}, and the relay has not sent it yet"
    if row.state is RowState.PLACED:
        text = (
            f"it was written to the outbox {span(row.age)} ago and is in the store; it waits until "
            "the relay lets it start"
        )
    return [
        Reason(
            ReasonCode.IN_OUTBOX,
            text,
            evidence=evidence,
            **advise(
                "every worker of the app relays; if none runs, start one, or the relay alone",
                "relay",
                APP,
            ),
        )
    ]
