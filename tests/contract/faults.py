"""Stores that are broken on purpose: each fault is one that a real queue has had."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import Claim, Job, State
from mita.model.outcome import (
    Answer,
    ClaimResult,
    Counter,
    DeleteJob,
    RescheduleJob,
    Settlement,
    TimelineEntry,
    Verdict,
)
from mita.model.record import DisplayState
from mita.model.repeat import Firing
from mita.model.time import HOUR, Moment, Wait, When
from mita.model.view import JobFilter
from mita.ports.pubsub import Subscription
from mita.ports.store import ASKED, OnceValue
from mita.rules import asked as asking
from mita.rules import matching
from mita.rules.options import options_of
from mita.rules.schedule.spec import switched
from mita.rules.states import allowed
from mita.stores.memory import MemoryStore, leases, maintenance, once, repeats, resources, unique
from mita.stores.memory import amend as amending
from mita.stores.memory import claim as claiming
from mita.stores.memory import inspect as inspecting
from mita.stores.memory import settle as settling
from mita.stores.memory.context import MemoryContext
from mita.stores.memory.notify import MemoryNotifier
from mita.stores.memory.state.index import JobIndex
from mita.stores.memory.state.memory_state import MemoryRecord
from mita.stores.memory.state.ready_jobs import ReadyJobs
from mita.stores.memory.store import atomic
from mita.stores.shared.apart import named
from mita.stores.sqlite.file.statements import Statements
from mita.testing.contract import notify as waking

Break = Callable[[pytest.MonkeyPatch], None]


class Fault(NamedTuple):
    """What is broken, how, and the tests of the contract that must notice it."""

    what: str
    break_it: Break
    noticed_by: tuple[str, ...]


def _by_id(context: MemoryContext, claim: Claim) -> Claim:
    """The claim as a store sees it that forgets to compare tokens: whoever names the job holds
    it."""
    record = context.state.records.get(claim.id)
    return claim if record is None else replace(claim, token=record.job.token)


# ---------------------------------------------------------------- in the memory store


def show_waiting_jobs_as_scheduled(patch: pytest.MonkeyPatch) -> None:
    whole = matching.shown_as

    def shown(state: State, due: Moment, now: Moment) -> DisplayState:
        found = whole(state, due, now)
        return DisplayState.SCHEDULED if found is DisplayState.WAITING else found

    patch.setattr(matching, "shown_as", shown)
    patch.setattr(inspecting, "shown_as", shown)


def settle_by_id(patch: pytest.MonkeyPatch) -> None:
    whole = settling.settle_one

    def settle(context: MemoryContext, settlement: Settlement) -> bool:
        return whole(context, Settlement(_by_id(context, settlement.claim), settlement.verdict))

    patch.setattr(settling, "settle_one", settle)


def extend_by_id(patch: pytest.MonkeyPatch) -> None:
    whole = leases._extend
    patch.setattr(
        leases,
        "_extend",
        lambda context, claim, lease: whole(context, _by_id(context, claim), lease),
    )


def remember_by_id(patch: pytest.MonkeyPatch) -> None:
    whole = once.store_once

    def store_once(context: MemoryContext, memo: OnceValue) -> bytes | None:
        return whole(context, replace(memo, claim=_by_id(context, memo.claim)))

    patch.setattr(MemoryStore, "store_once", atomic(store_once))


def reap_with_the_old_token(patch: pytest.MonkeyPatch) -> None:
    whole = leases.reap

    def reap(context: MemoryContext, limit: int, lease: Wait, worker: str) -> list[Claim]:
        heirs = [
            replace(claim, token=claim.token - 1) for claim in whole(context, limit, lease, worker)
        ]
        for claim in heirs:
            context.change(context.state.records[claim.id], token=claim.token)
        return heirs

    patch.setattr(MemoryStore, "reap", atomic(reap))


def reap_the_living(patch: pytest.MonkeyPatch) -> None:
    whole = leases.reap

    def reap(context: MemoryContext, limit: int, lease: Wait, worker: str) -> list[Claim]:
        for id in list(context.state.index.leases):
            context.change(context.state.records[id], lease_until=context.now)
        return whole(context, limit, lease, worker)

    patch.setattr(MemoryStore, "reap", atomic(reap))


def _indexed_as(patch: pytest.MonkeyPatch, seen: Callable[[Job, int], tuple[Job, int]]) -> None:
    """Every line is kept in the order of what `seen` makes of a job and its age."""
    add, remove = JobIndex.add, JobIndex.remove
    patch.setattr(JobIndex, "add", lambda self, job, age: add(self, *seen(job, age)))
    patch.setattr(JobIndex, "remove", lambda self, job, age: remove(self, *seen(job, age)))


def ignore_priority(patch: pytest.MonkeyPatch) -> None:
    _indexed_as(patch, lambda job, age: (replace(job, priority=5), age))


def ignore_age(patch: pytest.MonkeyPatch) -> None:
    _indexed_as(patch, lambda job, age: (job, -age))


def ignore_due_in_the_order(patch: pytest.MonkeyPatch) -> None:
    def first(jobs: ReadyJobs, now: Moment, ageing: Wait | None) -> str | None:
        ready = jobs.ready(now, ageing)
        return ready[-1] if ready else None

    patch.setattr(ReadyJobs, "first", first)


def start_early(patch: pytest.MonkeyPatch) -> None:
    whole = ReadyJobs.first
    patch.setattr(
        ReadyJobs, "first", lambda self, now, ageing: whole(self, now + 10_000_000, ageing)
    )


def forget_the_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(When, "moment", lambda when, now: now if when.at is None else max(now, when.at))


def count_waits_on_the_callers_clock(patch: pytest.MonkeyPatch) -> None:
    whole = settling.settle_one

    def settle(context: MemoryContext, settlement: Settlement) -> bool:
        claim, verdict = settlement.claim, settlement.verdict
        if verdict.when is not None and verdict.when.at is None:
            verdict = replace(verdict, when=When(at=claim.at + verdict.when.wait))
        return whole(context, Settlement(claim, verdict))

    patch.setattr(settling, "settle_one", settle)


def count_a_reschedule_as_an_attempt(patch: pytest.MonkeyPatch) -> None:
    whole = settling.changes_of

    def written(context: MemoryContext, job: Job, verdict: Verdict) -> dict[str, Any]:
        more = {"attempts": job.attempts + 1} if verdict.counts is Counter.RESCHEDULES else {}
        return whole(context, job, verdict) | more

    patch.setattr(settling, "changes_of", written)


def count_what_was_not_started(patch: pytest.MonkeyPatch) -> None:
    whole = settling.changes_of

    def written(context: MemoryContext, job: Job, verdict: Verdict) -> dict[str, Any]:
        more = {"interruptions": job.interruptions + 1} if verdict.unstarted else {}
        return whole(context, job, verdict) | more

    patch.setattr(settling, "changes_of", written)


def keep_the_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JobIndex, "remove_holder", lambda *_: None)


def ignore_the_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claiming, "closed_gate", lambda context, job: None)


def ignore_the_limit(patch: pytest.MonkeyPatch) -> None:
    whole = resources.closed_gate
    patch.setattr(
        claiming, "closed_gate", lambda context, job: whole(context, replace(job, limit=2))
    )


def ignore_holds(patch: pytest.MonkeyPatch) -> None:
    whole = resources.use_of
    patch.setattr(
        resources, "use_of", lambda context, key: replace(whole(context, key), held_until=0)
    )


def wake_no_job(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settling, "free_keys_of", lambda context, queue, keys: None)


def wake_all_jobs(patch: pytest.MonkeyPatch) -> None:
    whole = resources.wake

    def wake(context: MemoryContext, key: tuple[str, str], at_most: int | None = None) -> None:
        for _ in context.state.index.blocked(key):
            whole(context, key)

    patch.setattr(resources, "wake", wake)


def ignore_pauses(patch: pytest.MonkeyPatch) -> None:
    whole = claiming.claim

    def claim(
        context: MemoryContext, queues: list[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        paused = dict(context.state.queues)
        context.state.queues.update(dict.fromkeys(context.state.queues))
        try:
            return whole(context, queues, limit, lease, worker)
        finally:
            context.state.queues.update(paused)

    patch.setattr(claiming, "claim", claim)
    patch.setattr(MemoryStore, "claim", atomic(claim))


def ignore_unique_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unique, "holder", lambda context, queue, key: None)


def free_unique_keys_at_once(patch: pytest.MonkeyPatch) -> None:
    whole = unique.free
    patch.setattr(unique, "free", lambda context, job: whole(context, replace(job, unique_for=0)))


def forget_what_was_asked(patch: pytest.MonkeyPatch) -> None:
    whole = settling.move

    def put_down(
        context: MemoryContext, record: MemoryRecord, verdict: Verdict, written: dict[str, Any]
    ) -> None:
        context.change(record, asked=None)
        whole(context, record, verdict, written)

    patch.setattr(settling, "move", put_down)


def obey_what_came_too_late(patch: pytest.MonkeyPatch) -> None:
    for module in (settling, asking):
        patch.setattr(module, "in_time", lambda asked, verdict: asked)


def revive_with_the_old_counters(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(amending, "RESET_ON_RETRY", {})


def amend_in_every_state(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(amending, "allowed", lambda change: frozenset(State))


def delete_and_keep_the_unique_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unique, "delete", lambda context, job: None)


def delete_the_living(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        amending,
        "allowed",
        lambda change: frozenset(State) if isinstance(change, DeleteJob) else allowed(change),
    )


def prune_before_the_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(maintenance, "is_over", lambda context, until: until is not None)


def prune_the_newest_surplus(patch: pytest.MonkeyPatch) -> None:
    whole = maintenance._surplus
    patch.setattr(
        maintenance, "_surplus", lambda context, queue, most: whole(context, queue, most)[::-1]
    )


def fire_without_looking(patch: pytest.MonkeyPatch) -> None:
    whole = repeats.fire_one

    def fire(context: MemoryContext, firing: Firing) -> bool:
        repeat = context.state.repeats.get(firing.key)
        if repeat is not None and repeat.cursor is not None:
            firing = replace(firing, cursor=repeat.cursor, revision=repeat.revision)
        return whole(context, firing)

    patch.setattr(repeats, "fire_one", fire)


def count_failures_after_a_success(patch: pytest.MonkeyPatch) -> None:
    def report(context: MemoryContext, key: str, failed: bool) -> int:
        repeat = context.state.repeats.get(key)
        if repeat is None:
            return 0
        failures = repeat.failures + failed
        context.state.repeats[key] = replace(repeat, failures=failures)
        return failures

    patch.setattr(MemoryStore, "report_repeat", atomic(report))


def resume_with_the_old_failures(patch: pytest.MonkeyPatch) -> None:
    whole = switched
    patch.setattr(
        repeats,
        "switched",
        lambda repeat, reason: replace(whole(repeat, reason), failures=repeat.failures),
    )


def hear_every_queue(patch: pytest.MonkeyPatch) -> None:
    whole = Subscription.put
    patch.setattr(
        Subscription,
        "put",
        lambda self, told: whole(self, [replace(one, queue=self.queue or "") for one in told]),
    )


def stay_open(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Subscription) -> None: ...

    patch.setattr(Subscription, "close", nothing)


def notify_no_worker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryNotifier, "notify", lambda self, topics: None)
    patch.setattr(waking, "WAKE_UP_TIMEOUT_S", 0.2)


def notify_of_every_request(patch: pytest.MonkeyPatch) -> None:
    whole = amending._ask_to_reschedule

    def ask_to_move(context: MemoryContext, record: MemoryRecord, change: RescheduleJob) -> Answer:
        context.topics.add(ASKED)
        return whole(context, record, change)

    patch.setattr(amending, "_ask_to_reschedule", ask_to_move)


def reject_the_whole_batch(patch: pytest.MonkeyPatch) -> None:
    whole = settling.settle

    def settle(context: MemoryContext, settlements: Sequence[Settlement]) -> list[bool]:
        room = context.room
        if room is not None and (
            large := [at for at, one in enumerate(settlements) if settling.size_of(one) > room]
        ):
            raise named([False] * len(settlements), dict.fromkeys(large, "too large"))
        return whole(context, settlements)

    _settle_with(patch, settle)


def claim_although_some_were_rejected(patch: pytest.MonkeyPatch) -> None:
    whole = settling.settle

    def settle(context: MemoryContext, settlements: Sequence[Settlement]) -> list[bool]:
        try:
            return whole(context, settlements)
        except Rejected:
            claiming.claim(context, ["mail"], 10, HOUR, "w1")
            raise

    _settle_with(patch, settle)


def _settle_with(
    patch: pytest.MonkeyPatch, settle: Callable[[MemoryContext, Sequence[Settlement]], list[bool]]
) -> None:
    patch.setattr(claiming, "settle", settle)
    patch.setattr(MemoryStore, "settle", atomic(settle))


def forget_when_it_was_started(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        "mita.stores.memory.context.TimelineEntry", lambda *parts: TimelineEntry(*parts[:5])
    )


def find_by_a_part_of_a_tag(patch: pytest.MonkeyPatch) -> None:
    whole = matching.matches

    def matches(job: Job, want: JobFilter, now: Moment) -> bool:
        tags = options_of(job.options).tags
        has_it = want.tag is None or any(want.tag in tag for tag in tags)
        return has_it and whole(job, replace(want, tag=None), now)

    patch.setattr(inspecting, "matches", matches)


A_STALE_SETTLE = (
    "test_a_late_worker_cannot_settle_a_job_it_lost",
    "test_a_claim_of_a_deleted_job_cannot_change_later_jobs",
    "test_an_old_claim_cannot_change_a_retried_job",
)
IN_MEMORY = [
    Fault(
        "a job without a due time that is shown as scheduled",
        show_waiting_jobs_as_scheduled,
        (
            "test_jobs_without_a_due_time_are_counted_as_waiting",
            "test_a_page_can_be_filtered_by_state",
        ),
    ),
    Fault(
        "a search that finds parts of tags",
        find_by_a_part_of_a_tag,
        ("test_jobs_are_found_by_their_tags",),
    ),
    Fault("no token check at settle", settle_by_id, (A_STALE_SETTLE[0], A_STALE_SETTLE[2])),
    Fault("no token check at extend", extend_by_id, ("test_a_lost_claim_cannot_be_extended",)),
    Fault(
        "no token check at remember",
        remember_by_id,
        ("test_a_late_worker_can_write_nothing_at_all",),
    ),
    Fault(
        "a reap without a new token",
        reap_with_the_old_token,
        (
            "test_a_reaped_job_has_a_larger_token",
            "test_a_late_worker_cannot_settle_a_job_it_lost",
        ),
    ),
    Fault("a reap of living leases", reap_the_living, ("test_a_job_with_a_lease_is_not_reaped",)),
    Fault("an order without priority", ignore_priority, ("test_the_higher_priority_goes_first",)),
    Fault(
        "an order without age", ignore_age, ("test_among_jobs_due_together_the_older_goes_first",)
    ),
    Fault(
        "an order without due time",
        ignore_due_in_the_order,
        (
            "test_of_equal_priority_the_job_due_first_goes_first",
            "test_among_jobs_due_together_the_older_goes_first",
        ),
    ),
    Fault("a start before the due time", start_early, ("test_nothing_starts_before_its_due_time",)),
    Fault(
        "a wait that is forgotten",
        forget_the_wait,
        (
            "test_a_delay_counts_from_the_clock_of_the_store",
            "test_a_retry_waits_and_counts_an_attempt",
        ),
    ),
    Fault(
        "a wait on the caller's clock",
        count_waits_on_the_callers_clock,
        ("test_the_delay_of_a_retry_counts_from_its_settlement",),
    ),
    Fault(
        "an attempt counted on reschedule",
        count_a_reschedule_as_an_attempt,
        (
            "test_a_handler_can_reschedule_its_job_to_a_point_in_time",
            "test_each_thing_that_happens_has_its_own_counter",
        ),
    ),
    Fault(
        "a count of what was not started",
        count_what_was_not_started,
        (
            "test_a_claim_that_was_not_started_goes_back_as_if_it_had_never_been_made",
            "test_a_claim_that_expired_ends_as_cancelled_and_frees_its_keys",
        ),
    ),
    Fault(
        "a success that does not reset the failures of a repeat",
        count_failures_after_a_success,
        ("test_failures_in_a_row_are_counted_and_a_success_resets_them",),
    ),
    Fault(
        "a resume that goes on counting failures",
        resume_with_the_old_failures,
        ("test_failures_are_kept_by_a_fire_an_edit_and_a_pause_but_not_by_a_resume",),
    ),
    Fault("a key that is not freed", keep_the_key, ("test_every_end_of_a_run_frees_the_key",)),
    Fault(
        "a key that is not looked at",
        ignore_the_key,
        ("test_one_claim_never_returns_two_jobs_of_one_key",),
    ),
    Fault(
        "a limit that is not looked at",
        ignore_the_limit,
        ("test_each_job_is_held_to_its_own_limit",),
    ),
    Fault("a hold that is not looked at", ignore_holds, ("test_no_job_of_a_held_key_starts",)),
    Fault("a freed key that wakes no job", wake_no_job, ("test_every_end_of_a_run_frees_the_key",)),
    Fault(
        "a freed key that wakes all jobs",
        wake_all_jobs,
        ("test_a_free_key_wakes_one_job_and_not_all",),
    ),
    Fault(
        "a pause that is not looked at",
        ignore_pauses,
        ("test_a_paused_queue_gives_no_jobs_and_the_others_do",),
    ),
    Fault(
        "a unique key that is not looked at",
        ignore_unique_keys,
        (
            "test_a_second_job_with_the_key_gets_the_id_of_the_first",
            "test_concurrent_enqueues_with_one_key_create_one_job",
        ),
    ),
    Fault(
        "a unique key that is free too soon",
        free_unique_keys_at_once,
        ("test_unique_for_keeps_the_key_after_the_end",),
    ),
    Fault(
        "an ask that is forgotten",
        forget_what_was_asked,
        (
            "test_a_running_job_is_rescheduled_when_its_run_ends",
            "test_a_running_job_that_was_cancelled_ends_as_cancelled",
        ),
    ),
    Fault(
        "a cancel that overrules a success which others know of",
        obey_what_came_too_late,
        ("test_what_is_asked_of_a_job_that_has_told_its_success_comes_too_late",),
    ),
    Fault(
        "a revived job with its old counters",
        revive_with_the_old_counters,
        ("test_a_retried_job_has_its_counters_at_zero",),
    ),
    Fault(
        "an ended job that can be changed",
        amend_in_every_state,
        ("test_an_ended_job_stays_as_it_ended",),
    ),
    Fault(
        "a living job that is deleted",
        delete_the_living,
        ("test_a_job_that_waits_or_runs_is_not_deleted",),
    ),
    Fault(
        "a deleted job that keeps its unique key",
        delete_and_keep_the_unique_key,
        ("test_a_deleted_job_frees_the_unique_key_that_it_would_have_kept",),
    ),
    Fault(
        "a prune before the time",
        prune_before_the_time,
        ("test_a_job_is_pruned_when_its_retention_is_over",),
    ),
    Fault(
        "a prune of the newest surplus jobs",
        prune_the_newest_surplus,
        ("test_the_oldest_surplus_jobs_are_pruned_first",),
    ),
    Fault(
        "a firing that does not compare",
        fire_without_looking,
        (
            "test_of_many_schedulers_one_fires",
            "test_a_firing_of_an_old_definition_is_refused",
        ),
    ),
    Fault(
        "a batch that is rejected as a whole",
        reject_the_whole_batch,
        (
            "test_a_result_that_is_too_large_is_rejected_and_the_others_are_settled",
            "test_a_result_that_is_too_large_is_rejected_among_jobs_with_keys",
        ),
    ),
    Fault(
        "a claim that is not returned",
        claim_although_some_were_rejected,
        ("test_settle_and_claim_with_a_rejected_result_claims_nothing",),
    ),
    Fault(
        "a failure without its start",
        forget_when_it_was_started,
        (
            "test_a_failed_run_leaves_its_error_and_its_start_time",
            "test_failed_runs_of_one_batch_leave_their_errors",
        ),
    ),
    Fault(
        "a subscription to every queue",
        hear_every_queue,
        ("test_a_subscription_to_one_queue_gets_no_other_events",),
    ),
    Fault(
        "a subscription that stays open",
        stay_open,
        ("test_subscribed_queues_lists_what_is_subscribed_to",),
    ),
    Fault(
        "a reschedule that wakes every heartbeat",
        notify_of_every_request,
        ("test_a_reschedule_of_a_running_job_wakes_no_heartbeat",),
    ),
    Fault(
        "a notification that is not sent",
        notify_no_worker,
        ("test_a_notification_before_the_wait_is_not_lost",),
    ),
]


# ---------------------------------------------------------------- in the statements of SQLite


def said_as(**changes: tuple[str, str]) -> Break:
    """Put another text in the place of a part of some statements."""

    def break_it(patch: pytest.MonkeyPatch) -> None:
        whole = Statements.__missing__

        def broken(self: Statements, key: str | tuple[str, int, int]) -> str:
            text = whole(self, key)
            if not isinstance(key, str) or key not in changes:
                return text
            old, new = changes[key]
            assert old in text, (
                f"{key}.sql does not say {old!r} any more: the fault must be written anew"
            )
            self[key] = text.replace(old, new)
            return self[key]

        patch.setattr(Statements, "__missing__", broken)

    return break_it


ANY_TOKEN = {
    # so that each is settled by itself, by the two below
    "settle_fresh": (" and state = 'running'", " and false"),
    "settle_held": (" and token = :token", " and :token > 0"),
    "settle": (" and token = :token", " and :token > 0"),
}
IN_SQLITE = [
    Fault(
        "jobs of groups that are not counted as waiting",
        said_as(queues_queued=("(where j.due =", "(where j.fair is null and j.due =")),
        ("test_jobs_without_a_due_time_are_counted_as_waiting",),
    ),
    Fault(
        "no token check at settle",
        said_as(**ANY_TOKEN),
        ("test_a_late_worker_cannot_settle_a_job_it_lost",),
    ),
    Fault(
        "no token check for a success",
        said_as(settle_succeed=(" and token = v.column2", "")),
        ("test_a_late_worker_cannot_settle_a_job_it_lost",),
    ),
    Fault(
        "a success written over a cancel",
        said_as(settle_succeed=(" and asked is null", "")),
        ("test_a_running_job_that_was_cancelled_ends_as_cancelled",),
    ),
    Fault(
        "a claim that ends no holds",
        said_as(claim_any_stops=("exists (select 1 from _mita_hold)", "0")),
        ("test_the_end_of_a_hold_wakes_as_many_jobs_as_may_run",),
    ),
    Fault(
        "no token check at extend",
        said_as(
            extend=(" and token = v.column2", ""), extend_held=(" and j.token = v.column2", "")
        ),
        ("test_a_lost_claim_cannot_be_extended",),
    ),
    Fault(
        "a reap without a new token",
        said_as(reap_take=("token = token + 1, ", ""), reap_expired=("token + 1", "token")),
        ("test_a_reaped_job_has_a_larger_token",),
    ),
    Fault(
        "an order without priority",
        said_as(claim_candidates=("limit :limit", "order by j.due, j.seq limit :limit")),
        ("test_the_higher_priority_goes_first",),
    ),
    Fault(
        "an order without due time",
        said_as(claim_candidates=("limit :limit", "order by j.priority desc, j.seq limit :limit")),
        ("test_of_equal_priority_the_job_due_first_goes_first",),
    ),
    Fault(
        "a start before the due time",
        said_as(claim_candidates=("j.due <= :now", "j.due <= :now + 1000000")),
        ("test_nothing_starts_before_its_due_time",),
    ),
    Fault(
        "a wait that is forgotten", forget_the_wait, ("test_a_retry_waits_and_counts_an_attempt",)
    ),
    Fault(
        "a failure without its start",
        said_as(
            note_many=("then j.started", "then null"),
            note=("then (select j.started", "then (select null"),
        ),
        (
            "test_a_failed_run_leaves_its_error_and_its_start_time",
            "test_failed_runs_of_one_batch_leave_their_errors",
        ),
    ),
    Fault(
        "an attempt counted on reschedule",
        said_as(
            settle_many=("(v.column6 = 'attempts')", "(v.column6 in ('attempts', 'reschedules'))")
        ),
        ("test_a_handler_can_reschedule_its_job_to_a_point_in_time",),
    ),
    Fault(
        "a key that is not looked at",
        said_as(key_state=("count(*)", "0 * count(*)"), key_states=("count(*)", "0 * count(*)")),
        ("test_a_job_whose_key_is_taken_waits_and_counts_no_attempt",),
    ),
    Fault(
        "a blocked job that is not woken",
        said_as(key_wake=("'blocked'", "'nobody'")),
        ("test_every_end_of_a_run_frees_the_key",),
    ),
    Fault(
        "a pause that is not looked at",
        said_as(claim_stops=("select name, paused", "select name, null")),
        ("test_a_resumed_queue_gives_jobs_again",),
    ),
    Fault(
        "a unique key that is not looked at",
        said_as(unique_holder=("until is null or ", "")),
        ("test_a_second_job_with_the_key_gets_the_id_of_the_first",),
    ),
    Fault(
        "a deleted job that takes another's unique key",
        said_as(unique_delete=("and id = (select id from", "and 1 = (select 1 from")),
        ("test_a_deleted_job_leaves_the_unique_key_of_another_alone",),
    ),
    Fault(
        "a token that is given twice",
        said_as(key_rate=("r.* from", "column1, column2, 0, 0, column5, column6, column7 from")),
        ("test_a_burst_starts_at_once_and_no_more", "test_one_rate_for_all_workers"),
    ),
    Fault(
        "a token that wakes all jobs",
        said_as(key_wake=("where seq in", "where blocked_at is not null or seq in")),
        ("test_a_rate_wakes_as_many_jobs_as_it_has_tokens",),
    ),
    Fault(
        "a token that is not given back",
        said_as(key_give_back=("tat_us = :tat_us", "tat_us = tat_us")),
        ("test_a_job_that_was_not_started_gives_its_token_back",),
    ),
    Fault(
        "a further key that is not freed",
        said_as(key_free=("(queue, key, job) in", "(queue, key, -job) in")),
        ("test_every_end_frees_all_keys", "test_a_job_needs_all_of_its_keys"),
    ),
    Fault(
        "a limited queue whose runs are not counted",
        said_as(claim_running=("count(*)", "0 * count(*)")),
        ("test_a_limited_queue_runs_so_many_jobs_at_once",),
    ),
    Fault(
        "a group that is not charged for its starts",
        said_as(claim_group_moves=("select r.* from", "select column1, column2, column3, 0 from")),
        ("test_groups_take_turns", "test_weights"),
    ),
    Fault(
        "ageing that is forgotten",
        said_as(claim_candidates_aged=("priority * :ageing", "priority * 9999999")),
        ("test_a_job_rises_while_it_waits",),
    ),
    Fault(
        "a debounce that keeps the old arguments",
        said_as(enqueue_move_twin=("payload = :payload", "payload = payload")),
        ("test_a_debounce_replaces_the_arguments",),
    ),
    Fault(
        "a throttle that ends with its job",
        said_as(unique_take=(":id, :until)", ":id, null)")),
        ("test_a_throttle_lets_one_job_in",),
    ),
    Fault(
        "a firing that does not compare the cursor",
        said_as(fire=("cursor = :cursor and ", ":cursor and ")),
        ("test_a_scheduler_that_wakes_up_late_fires_nothing",),
    ),
    Fault(
        "a firing that does not compare the revision",
        said_as(fire=("revision = :revision", ":revision >= 0")),
        ("test_a_firing_of_an_old_definition_is_refused",),
    ),
]
