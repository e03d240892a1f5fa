"""Limits that are broken on purpose: keys, rates, shares, ageing, debounce and throttle."""

from collections import Counter as Counters
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from mita.model.gate import MOST_HOLDERS, Gate, StoredLimit
from mita.model.job import PRIORITIES, Job, NewJob, State
from mita.model.outcome import ClaimResult
from mita.model.time import Moment, Wait
from mita.rules import gates
from mita.rules.busy import BUSY_POLICIES
from mita.rules.gates import KeyUse
from mita.rules.shares import finish_tag
from mita.rules.twins import TwinAct, act_on_twin
from mita.stores.memory import MemoryStore, maintenance, resources, unique
from mita.stores.memory import claim as claiming
from mita.stores.memory import enqueue as enqueuing
from mita.stores.memory import settle as settling
from mita.stores.memory.context import MemoryContext
from mita.stores.memory.state import ready_jobs
from mita.stores.memory.state.index import JobIndex, ResourceKey, keys
from mita.stores.memory.state.memory_state import RateLevel
from mita.stores.memory.state.ready_jobs import ReadyJobs
from mita.stores.memory.store import atomic

from .faults import Fault

Claiming = Callable[[MemoryContext, Sequence[str], int, Wait, str], ClaimResult]
CAP_JOBS = 3  # of one group, in the fault that shares by a cap


def _claim_with(patch: pytest.MonkeyPatch, claim: Claiming) -> None:
    patch.setattr(claiming, "claim", claim)
    patch.setattr(MemoryStore, "claim", atomic(claim))


# ---------------------------------------------------------------- rates


def take_no_token(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claiming, "pass_gates", lambda context, job: None)


def take_no_token_of_the_queue(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claiming, "after_starts", lambda limit, level_us, now, starts: level_us)


def give_no_token_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(settling, "give_back", lambda context, job: None)


def give_a_token_at_every_end(patch: pytest.MonkeyPatch) -> None:
    whole = resources.free_keys_of

    def free(context: MemoryContext, queue: str, keys: Sequence[str]) -> None:
        for key in keys:
            context.state.rates.pop((queue, key), None)
        whole(context, queue, keys)

    patch.setattr(settling, "free_keys_of", free)


def wake_all_at_a_token(patch: pytest.MonkeyPatch) -> None:
    whole = gates.to_wake

    def to_wake(gate: Gate, use: KeyUse, now: Moment) -> int:
        woken = whole(gate, use, now)
        return MOST_HOLDERS if woken and gate.interval_us else woken

    patch.setattr(gates, "to_wake", to_wake)


def forget_the_woken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gates, "after_waking", lambda gate, use, now, woken: use)


def take_tokens_at_the_wake_up(patch: pytest.MonkeyPatch) -> None:
    """A woken job has its token, and its start takes none."""
    wake, closed_gate, pass_gates = resources.wake, resources.closed_gate, resources.pass_gates
    paid: set[str] = set()

    def waking(context: MemoryContext, key: ResourceKey, at_most: int | None = None) -> None:
        before = context.state.index.blocked(key)
        wake(context, key, at_most)
        if (level := context.state.rates.get(key)) is not None:
            context.state.rates[key] = replace(level, tat_us=level.woken_us)
        paid.update(set(before) - set(context.state.index.blocked(key)))

    patch.setattr(resources, "wake", waking)
    patch.setattr(
        claiming, "closed_gate", lambda c, job: None if job.id in paid else closed_gate(c, job)
    )
    patch.setattr(
        claiming, "pass_gates", lambda c, job: None if job.id in paid else pass_gates(c, job)
    )


def take_a_token_before_all_gates_are_open(patch: pytest.MonkeyPatch) -> None:
    whole = resources.closed_gate

    def closed_gate(context: MemoryContext, job: Job) -> Gate | None:
        gate = whole(context, job)
        if gate is not None and not gate.interval_us:
            resources.pass_gates(context, job)
        return gate

    patch.setattr(claiming, "closed_gate", closed_gate)


def count_the_rate_of_each_worker(patch: pytest.MonkeyPatch) -> None:
    """As if each worker had a bucket of its own."""
    whole = claiming.claim
    rates: dict[str, dict[ResourceKey, RateLevel]] = {}

    def claim(
        context: MemoryContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        context.state.rates = rates.setdefault(worker, {})
        return whole(context, queues, limit, lease, worker)

    _claim_with(patch, claim)


def skip_at_a_rate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        claiming, "busy_policy", lambda when_busy, gate, use, now: BUSY_POLICIES[when_busy]
    )


def prune_every_rate(patch: pytest.MonkeyPatch) -> None:
    _prune_rates(patch, lambda context, key: True)


def prune_rates_that_jobs_wait_for(patch: pytest.MonkeyPatch) -> None:
    _prune_rates(
        patch,
        lambda context, key: context.state.rates[key].tat_us <= context.now * gates.ONE_MS_US,
    )


def _prune_rates(
    patch: pytest.MonkeyPatch, goes: Callable[[MemoryContext, ResourceKey], bool]
) -> None:
    whole = maintenance.prune

    def prune(context: MemoryContext, limit: int, most: int) -> int:
        for key in [key for key in context.state.rates if goes(context, key)]:
            del context.state.rates[key]
        return whole(context, limit, most)

    patch.setattr(MemoryStore, "prune", atomic(prune))


def ask_again_without_the_woken_jobs(patch: pytest.MonkeyPatch) -> None:
    whole = gates.next_wake_at
    patch.setattr(
        gates, "next_wake_at", lambda gate, use, now: whole(gate, replace(use, woken_us=0), now)
    )


# ---------------------------------------------------------------- several keys


def hold_keys_while_waiting(patch: pytest.MonkeyPatch) -> None:
    """A job takes its keys one by one: while it waits at one, it has those before it."""
    add, remove = JobIndex.add, JobIndex.remove

    def taken(job: Job) -> list[ResourceKey]:
        names = [name for _, name in keys(job)]
        at = names.index(job.blocked_at) if job.state is State.BLOCKED and job.blocked_at else 0
        return [(job.queue, name) for name in names[:at]]

    def adding(index: JobIndex, job: Job, age: int) -> None:
        add(index, job, age)
        for key in taken(job):
            index._holders.setdefault(key, set()).add(job.id)

    def removing(index: JobIndex, job: Job, age: int) -> None:
        remove(index, job, age)
        for key in taken(job):
            index.remove_holder(key, job.id)

    patch.setattr(JobIndex, "add", adding)
    patch.setattr(JobIndex, "remove", removing)


def keep_the_further_keys(patch: pytest.MonkeyPatch) -> None:
    remove = JobIndex.remove

    def removing(index: JobIndex, job: Job, age: int) -> None:
        remove(index, job, age)
        for key in keys(job)[1:] if job.state is State.RUNNING else []:
            index._holders.setdefault(key, set()).add(job.id)

    patch.setattr(JobIndex, "remove", removing)


def wake_at_the_first_key_only(patch: pytest.MonkeyPatch) -> None:
    whole = resources.free_keys_of
    patch.setattr(settling, "free_keys_of", lambda c, queue, keys: whole(c, queue, keys[:1]))


# ---------------------------------------------------------------- stored limits


def set_a_limit_and_wake_no_job(patch: pytest.MonkeyPatch) -> None:
    whole, wake = resources.limit_key, resources.wake

    def limit_key(context: MemoryContext, key: ResourceKey, limit: StoredLimit | None) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(resources, "wake", lambda context, key, at_most=None: None)
            whole(context, key, limit)
        assert resources.wake is wake

    patch.setattr("mita.stores.memory.control.limit_key", limit_key)


def count_each_claim_by_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JobIndex, "running", lambda self, queue: 0)


def ignore_zero_of_a_queue(patch: pytest.MonkeyPatch) -> None:
    whole = gates.places

    def places(limit: StoredLimit, running: int, tat_us: int, now: Moment) -> int:
        return whole(replace(limit, concurrency=limit.concurrency or None), running, tat_us, now)

    patch.setattr(claiming, "places", places)


def ignore_zero_of_a_key(patch: pytest.MonkeyPatch) -> None:
    whole = gates.effective

    def effective(gate: Gate, stored: StoredLimit | None) -> Gate:
        return whole(gate, stored and replace(stored, concurrency=stored.concurrency or None))

    patch.setattr(gates, "effective", effective)


def notify_no_place_in_a_queue(patch: pytest.MonkeyPatch) -> None:
    whole = settling.settle_one

    def settle(context: MemoryContext, settlement: object) -> bool:
        limits, context.state.queue_limits = context.state.queue_limits, {}
        try:
            return whole(context, settlement)  # type: ignore[arg-type]
        finally:
            context.state.queue_limits = limits

    patch.setattr(settling, "settle_one", settle)


def set_a_limit_and_forget_the_starts(patch: pytest.MonkeyPatch) -> None:
    limit_key, limit_queue = resources.limit_key, resources.limit_queue

    def of_key(context: MemoryContext, key: ResourceKey, limit: StoredLimit | None) -> None:
        context.state.rates.pop(key, None)
        limit_key(context, key, limit)

    def of_queue(context: MemoryContext, queue: str, limit: StoredLimit | None) -> None:
        context.state.queue_levels.pop(queue, None)
        limit_queue(context, queue, limit)

    patch.setattr("mita.stores.memory.control.limit_key", of_key)
    patch.setattr("mita.stores.memory.control.limit_queue", of_queue)


def keep_the_level_of_a_slower_rate(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gates, "bounded", lambda gate, use, now: use)
    patch.setattr(gates, "bounded_level", lambda limit, level_us, now: level_us)


def replace_every_part_of_a_limit(patch: pytest.MonkeyPatch) -> None:
    def effective(gate: Gate, stored: StoredLimit | None) -> Gate:
        if stored is None:
            return gate
        return Gate(gate.key, stored.concurrency, stored.interval_us, stored.burst)

    patch.setattr(gates, "effective", effective)


def take_the_larger_limit_of_a_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gates, "_merged", lambda one, other: one)


# ---------------------------------------------------------------- shares and ageing


def share_by_a_cap(patch: pytest.MonkeyPatch) -> None:
    """A claim takes at most so many jobs of a group, also if no other group has jobs."""
    whole, first, start = claiming.claim, ReadyJobs.first, ReadyJobs.start
    started: Counters[str] = Counters()

    def claim(
        context: MemoryContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        started.clear()
        return whole(context, queues, limit, lease, worker)

    def next_of(jobs: ReadyJobs, now: Moment, ageing: Wait | None) -> str | None:
        id = first(jobs, now, ageing)
        return id if id is None or started[jobs._place[id].group] < CAP_JOBS else None

    def starting(jobs: ReadyJobs, id: str) -> None:
        started[jobs._place[id].group] += 1
        start(jobs, id)

    _claim_with(patch, claim)
    patch.setattr(ReadyJobs, "first", next_of)
    patch.setattr(ReadyJobs, "start", starting)


def take_no_turns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReadyJobs, "start", lambda self, _: None)


def give_an_idle_group_its_missed_turns(patch: pytest.MonkeyPatch) -> None:
    """The groups count their starts, and the one with the fewest goes next."""
    patch.setattr(ready_jobs, "start_tag", lambda virtual, finished: finished)


def ignore_weights(patch: pytest.MonkeyPatch) -> None:
    whole = finish_tag
    patch.setattr(ready_jobs, "finish_tag", lambda start, weight: whole(start, 1000))


def weigh_jobs_without_a_group(patch: pytest.MonkeyPatch) -> None:
    whole = ReadyJobs.add

    def add(ready: ReadyJobs, job: Job, age: int) -> None:
        whole(ready, job, age)
        ready._place[job.id] = ready._place[job.id]._replace(weight=job.weight)

    patch.setattr(ReadyJobs, "add", add)


def ignore_ageing(patch: pytest.MonkeyPatch) -> None:
    whole = ReadyJobs.first
    patch.setattr(ReadyJobs, "first", lambda self, now, ageing: whole(self, now, None))


def write_the_aged_priority(patch: pytest.MonkeyPatch) -> None:
    whole = claiming.claim

    def claim(
        context: MemoryContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
    ) -> ClaimResult:
        for record in context.state.records.values():
            job = record.job
            if context.ageing and job.state is State.QUEUED and job.due < context.now:
                risen = job.priority + (context.now - job.due) // context.ageing
                context.change(record, priority=min(PRIORITIES[-1], risen))
        return whole(context, queues, limit, lease, worker)

    _claim_with(patch, claim)


# ---------------------------------------------------------------- debounce and throttle


def debounce_into_two_jobs(patch: pytest.MonkeyPatch) -> None:
    whole = enqueuing._meets
    patch.setattr(
        enqueuing, "_meets", lambda c, new, twin: not new.debounce and whole(c, new, twin)
    )


def debounce_with_the_old_arguments(patch: pytest.MonkeyPatch) -> None:
    whole = enqueuing._meets

    def meets(context: MemoryContext, new: NewJob, twin: str) -> bool:
        old = context.state.records[twin].job
        given = {name: getattr(old, name) for name in ("payload", "options", "headers")}
        return whole(context, replace(new, **given), twin)

    patch.setattr(enqueuing, "_meets", meets)


def debounce_without_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(enqueuing, "debounced_due", lambda new, created, now: now + new.debounce)


def debounce_nothing_while_it_runs(patch: pytest.MonkeyPatch) -> None:
    whole = act_on_twin

    def act(new: NewJob, twin: State) -> TwinAct:
        return TwinAct.KEEP if twin is State.RUNNING else whole(new, twin)

    patch.setattr(enqueuing, "act_on_twin", act)


def free_the_key_of_the_next_job(patch: pytest.MonkeyPatch) -> None:
    def free(context: MemoryContext, job: Job) -> None:
        if job.unique is not None:
            context.state.unique.pop((job.queue, job.unique), None)

    patch.setattr(unique, "free", free)


def _enqueue_as(patch: pytest.MonkeyPatch, seen: Callable[[NewJob], NewJob]) -> None:
    whole = enqueuing._enqueue
    patch.setattr(enqueuing, "_enqueue", lambda context, new: whole(context, seen(new)))


def throttle_from_the_end(patch: pytest.MonkeyPatch) -> None:
    _enqueue_as(patch, lambda new: replace(new, unique_for=new.throttle, throttle=0))


def throttle_until_the_end(patch: pytest.MonkeyPatch) -> None:
    whole = unique.free

    def free(context: MemoryContext, job: Job) -> None:
        found = context.state.unique.get((job.queue, job.unique or ""))
        if found is not None and found.id == job.id:
            context.state.unique[job.queue, job.unique or ""] = replace(found, until=None)
        whole(context, job)

    patch.setattr(unique, "free", free)


def notify_no_worker_of_a_debounce(patch: pytest.MonkeyPatch) -> None:
    whole = enqueuing._meets

    def meets(context: MemoryContext, new: NewJob, twin: str) -> bool:
        stays = whole(context, new, twin)
        context.topics.clear()
        return stays

    patch.setattr(enqueuing, "_meets", meets)


OF_LIMITS = [
    Fault(
        "a token that is given twice",
        take_no_token,
        (
            "test_a_job_without_a_token_waits_and_counts_no_attempt",
            "test_a_burst_starts_at_once_and_no_more",
            "test_one_rate_for_all_workers",
        ),
    ),
    Fault(
        "a token of a queue that is given twice",
        take_no_token_of_the_queue,
        ("test_the_rate_of_a_queue",),
    ),
    Fault(
        "a token that is not given back",
        give_no_token_back,
        (
            "test_a_job_that_was_not_started_gives_its_token_back",
            "test_the_rate_of_a_queue_gets_unstarted_tokens_back",
        ),
    ),
    Fault(
        "a token for every run that ends",
        give_a_token_at_every_end,
        ("test_the_end_of_a_run_gives_no_token",),
    ),
    Fault(
        "a token that wakes all jobs",
        wake_all_at_a_token,
        ("test_a_rate_wakes_as_many_jobs_as_it_has_tokens",),
    ),
    Fault(
        "a rate that forgets which jobs it has woken",
        forget_the_woken,
        ("test_a_rate_wakes_as_many_jobs_as_it_has_tokens",),
    ),
    Fault(
        "a token that is taken at the wake-up",
        take_tokens_at_the_wake_up,
        ("test_a_woken_job_that_never_starts_takes_no_token",),
    ),
    Fault(
        "a token that a job takes which waits for a key",
        take_a_token_before_all_gates_are_open,
        ("test_a_rate_and_a_key_must_both_be_open",),
    ),
    Fault(
        "a rate for each worker",
        count_the_rate_of_each_worker,
        ("test_a_token_that_one_worker_took_is_gone_for_the_others",),
    ),
    Fault(
        "a job that is skipped at a rate",
        skip_at_a_rate,
        ("test_at_a_rate_a_job_waits_whatever_its_busy_policy_is",),
    ),
    Fault(
        "a claim that asks again as if no job had been woken",
        ask_again_without_the_woken_jobs,
        ("test_a_claim_asks_again_when_the_next_job_can_be_woken",),
    ),
    Fault("a prune of every rate", prune_every_rate, ("test_idle_rates_are_forgotten",)),
    Fault(
        "a prune of a rate that jobs wait for",
        prune_rates_that_jobs_wait_for,
        ("test_a_rate_that_jobs_wait_for_is_not_forgotten",),
    ),
    Fault(
        "keys that are taken one by one",
        hold_keys_while_waiting,
        ("test_a_job_that_waits_for_one_key_holds_no_other",),
    ),
    Fault(
        "a further key that is not freed",
        keep_the_further_keys,
        ("test_a_job_needs_all_of_its_keys", "test_every_end_frees_all_keys"),
    ),
    Fault(
        "a further key that wakes no job",
        wake_at_the_first_key_only,
        ("test_a_job_needs_all_of_its_keys", "test_every_end_frees_all_keys"),
    ),
    Fault(
        "a limit of a key that wakes no job",
        set_a_limit_and_wake_no_job,
        (
            "test_a_limit_of_a_key_replaces_that_of_the_jobs",
            "test_a_key_with_a_limit_of_zero_starts_nothing",
        ),
    ),
    Fault(
        "a limit of a queue that each claim counts by itself",
        count_each_claim_by_itself,
        (
            "test_a_limited_queue_runs_so_many_jobs_at_once",
            "test_workers_that_claim_at_once_share_the_places",
            "test_running_jobs_count_when_a_limit_is_set",
        ),
    ),
    Fault(
        "a queue that a limit of 0 does not stop",
        ignore_zero_of_a_queue,
        ("test_a_limit_of_zero_stops_starts",),
    ),
    Fault(
        "a key that a limit of 0 does not stop",
        ignore_zero_of_a_key,
        ("test_a_key_with_a_limit_of_zero_starts_nothing",),
    ),
    Fault(
        "a limit that is set again and forgets the starts",
        set_a_limit_and_forget_the_starts,
        ("test_a_limit_that_is_set_again_gives_no_new_tokens",),
    ),
    Fault(
        "a faster rate that waits for the slower one",
        keep_the_level_of_a_slower_rate,
        (
            "test_a_faster_rate_takes_effect_at_once",
            "test_a_faster_rate_of_a_queue_takes_effect_at_once",
        ),
    ),
    Fault(
        "a stored rate that lifts the limit of the jobs",
        replace_every_part_of_a_limit,
        ("test_a_stored_rate_leaves_the_limit_of_the_jobs",),
    ),
    Fault(
        "a key that is named twice and has one of its conditions",
        take_the_larger_limit_of_a_key,
        ("test_a_key_that_is_named_twice_is_one_condition",),
    ),
    Fault(
        "a place in a full queue that no worker hears of",
        notify_no_place_in_a_queue,
        ("test_a_place_in_a_limited_queue_is_a_notification",),
    ),
    Fault("shares by a cap", share_by_a_cap, ("test_no_turn_is_left_unused",)),
    Fault(
        "shares without turns",
        take_no_turns,
        (
            "test_groups_take_turns",
            "test_a_claim_of_many_takes_turns_too",
            "test_a_small_group_is_not_behind_a_large_one",
        ),
    ),
    Fault(
        "an idle group that gets its missed turns",
        give_an_idle_group_its_missed_turns,
        ("test_a_group_gets_nothing_for_the_time_it_was_idle",),
    ),
    Fault("weights that are not looked at", ignore_weights, ("test_weights",)),
    Fault(
        "a weight for jobs without a group",
        weigh_jobs_without_a_group,
        ("test_jobs_without_a_group_have_the_weight_of_one",),
    ),
    Fault(
        "an ageing that is not looked at",
        ignore_ageing,
        (
            "test_a_job_rises_while_it_waits",
            "test_a_steady_stream_of_higher_priority_starves_no_job",
        ),
    ),
    Fault(
        "an ageing that changes the job",
        write_the_aged_priority,
        ("test_a_job_rises_while_it_waits",),
    ),
    Fault(
        "a debounce that makes two jobs",
        debounce_into_two_jobs,
        (
            "test_a_debounce_moves_the_waiting_job",
            "test_concurrent_debounces_make_one_job",
            "test_debounced_jobs_run_once",
        ),
    ),
    Fault(
        "a debounce that keeps the old arguments",
        debounce_with_the_old_arguments,
        ("test_a_debounce_replaces_the_arguments", "test_debounced_jobs_run_once"),
    ),
    Fault(
        "a debounce past its longest wait",
        debounce_without_end,
        ("test_a_debounce_ends_at_its_longest_wait",),
    ),
    Fault(
        "a debounce that loses the newest arguments while the job runs",
        debounce_nothing_while_it_runs,
        ("test_a_debounce_while_the_job_runs_makes_a_new_job",),
    ),
    Fault(
        "an end that frees the unique key of the next job",
        free_the_key_of_the_next_job,
        (
            "test_a_debounce_while_the_job_runs_makes_a_new_job",
            "test_a_throttle_counts_from_the_enqueue",
        ),
    ),
    Fault(
        "a debounce that no worker hears of",
        notify_no_worker_of_a_debounce,
        ("test_a_debounce_notifies",),
    ),
    Fault(
        "a throttle that counts from the end",
        throttle_from_the_end,
        ("test_a_throttle_counts_from_the_enqueue",),
    ),
    Fault(
        "a throttle that the end of the job frees",
        throttle_until_the_end,
        (
            "test_a_throttle_lets_one_job_in",
            "test_a_throttle_outlives_its_job",
            "test_a_throttled_job_that_is_cancelled_keeps_the_key",
        ),
    ),
]
