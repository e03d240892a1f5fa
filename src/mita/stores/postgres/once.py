"""How far runs have come, and what they remember across retries."""

from collections.abc import Sequence

from mita.model.job import Claim
from mita.model.outcome import Progress
from mita.ports.store import OnceValue
from mita.stores.shared.views import as_memo

from .arrays import blobs, check_size, numbers, storable, texts
from .steps import Act, Step, Steps, ask


def progress(_: Act, reports: Sequence[Progress]) -> Steps[list[bool]]:
    newest = {(report.claim.id, report.claim.token): report.report for report in reports}
    ordered = sorted(newest)
    [rows] = yield Step(
        ask(
            "progress",
            ids=texts([id for id, _ in ordered]),
            tokens=numbers([token for _, token in ordered]),
            reports=blobs([newest[held] for held in ordered]),
        ),
        last=True,
    )
    held = set(rows)
    return [(report.claim.id, report.claim.token) in held for report in reports]


def load_once(_: Act, claim: Claim, name: str, shared: bool) -> Steps[bytes | None]:
    question = (
        ask("load_once_shared", name=storable(name))
        if shared
        else ask("load_once", id=claim.id, name=storable(name))
    )
    [rows] = yield Step(question, last=True)
    return None if not rows or rows[0][0] is None else as_memo(name, rows[0][0])


def store_once(_: Act, memo: OnceValue) -> Steps[bytes | None]:
    claim = memo.claim
    check_size(memo.value)
    values = {
        "id": claim.id,
        "token": claim.token,
        "name": storable(memo.name),
        "value": memo.value,
    }
    question = (
        ask("store_once", **values)
        if memo.keep is None
        else ask("store_once_shared", **values, keep=memo.keep)
    )
    [rows] = yield Step(question, last=True)
    return as_memo(memo.name, rows[0][0]) if rows else None
