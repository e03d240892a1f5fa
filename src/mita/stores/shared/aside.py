"""What the doctor says of records that cannot be read."""

from collections.abc import Sequence

from mita.model.view import Finding, Health
from mita.rules.display import times

NAMED_RECORDS = 5


def finding(ids: Sequence[str], others: Sequence[str] = ()) -> Finding:
    """`ids` are of jobs; `others` name records that are not jobs."""
    if not ids and not others:
        return Finding("records", "all can be read")
    named = [f"job {id}" for id in ids[:NAMED_RECORDS]] + list(others[:NAMED_RECORDS])
    more = (
        f" and {len(ids) + len(others) - len(named)} more"
        if len(ids) + len(others) > len(named)
        else ""
    )
    found = f"{times(len(ids) + len(others), 'record')} cannot be read: {', '.join(named)}{more}"
    remedy = (
        "`mita show ID` says why, `mita show ID --raw FILE` exports what is stored" if ids else ""
    )
    return Finding("records", found, Health.WARN, remedy)
