"""What a run may write down while it holds its job."""

from mita.errors import Rejected
from mita.model.job import Claim
from mita.model.outcome import Progress
from mita.ports.store import OnceValue

from .context import Act, SharedOnceValue


def progress(act: Act, report: Progress) -> bool:
    record = act.held_by(report.claim)
    if record is not None:
        act.change(record, progress=report.report)
    return record is not None


def load_once(act: Act, claim: Claim, name: str, shared: bool) -> bytes | None:
    if not shared:
        record = act.state.records.get(claim.id)
        return None if record is None else record.memos.get(name)
    memo = act.state.shared.get(name)
    return memo.value if memo is not None and memo.until > act.now else None


def store_once(act: Act, memo: OnceValue, room: int | None = None) -> bytes | None:
    record = act.held_by(memo.claim)
    if record is None:
        return None
    if room is not None and len(record.job.payload) + len(memo.value) > room:
        raise Rejected(
            f"a value of {len(memo.value):,} bytes is more than this store has room for ({room:,})"
        )
    if memo.keep is None:
        return record.memos.setdefault(memo.name, memo.value)
    standing = load_once(act, memo.claim, memo.name, shared=True)
    if standing is None:
        act.state.shared[memo.name] = SharedOnceValue(memo.value, act.now + memo.keep)
    return memo.value if standing is None else standing
