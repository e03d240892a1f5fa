"""How far runs have come, and what they remember across retries."""

from collections.abc import Sequence

from mita.model.job import Claim
from mita.model.outcome import Progress
from mita.ports.store import OnceValue
from mita.stores.shared.views import as_memo

from .context import Tx

SHARED = 0


def progress(tx: Tx, reports: Sequence[Progress]) -> list[bool]:
    return [
        tx.run("progress", seq=report.claim.ref, token=report.claim.token, report=report.report)
        == 1
        for report in reports
    ]


def load_once(tx: Tx, claim: Claim, name: str, shared: bool) -> bytes | None:
    found = tx.row("load_once", job=SHARED if shared else claim.ref, name=name, now=tx.now)
    return None if found is None else as_memo(name, found[0])


def store_once(tx: Tx, memo: OnceValue) -> bytes | None:
    claim, shared = memo.claim, memo.keep is not None
    if tx.row("held", seq=claim.ref, token=claim.token) is None:
        return None
    standing = load_once(tx, claim, memo.name, shared)
    if standing is not None:
        return standing
    expires = None if memo.keep is None else tx.now + memo.keep
    tx.run(
        "store_once",
        job=SHARED if shared else claim.ref,
        name=memo.name,
        value=memo.value,
        expires=expires,
    )
    return memo.value
