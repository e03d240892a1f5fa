-- settle: apply the verdicts of runs. What was asked of a job while it ran comes first. Holds are
-- set, unique keys are freed, and unstarted runs give the tokens of their queues back
-- (`rules.gates.ReturnedTokens`).
-- In: one array for each part of a verdict; `at` is a point in time, or null and `wait` counts;
--     `kind` of the timeline line if nothing was asked, and `asked_kind` if something was;
--     `first_key` is the job's first key, `signal` the once value that it waits for;
--     `told`: what was asked comes too late.
-- Out: id, state, queue of the settlements that took, whether the queue has a limit; the last
--     column is not used.
with clock as materialized (select {now} as now),
held as materialized (
  select j.id, j.queue, j.started, v.first_key, v.unstarted, j.uniq, j.unique_for,
         v.counts, v.error, v.stranded, v.note, v.failure, v.worker, v.result,
         v.failure_group,
         case when v.told then v.state else coalesce({state_after_asked}, v.state) end as state,
         case when j.asked is null or v.told then v.keep else coalesce(j.asked_keep, 0) end as keep,
         case when j.asked is not null and not v.told then coalesce(j.asked_due, j.due)
              when j.memos ? v.signal then clock.now
              when v.at is not null then greatest(v.at, clock.now)
              else coalesce(clock.now + v.wait, j.due) end as due,
         nullif(case when j.asked is null then v.kind else v.asked_kind end, {kind_none}) as kind,
         case when v.hold_at is null then clock.now + v.hold_wait
              else greatest(v.hold_at, clock.now) end as hold
  from unnest(
    %(ids)s::text::text[], %(tokens)s::text::bigint[], %(states)s::text::text[],
    %(waits)s::text::bigint[], %(ats)s::text::bigint[], %(counts)s::text::text[],
    %(results)s::text::bytea[], %(errors)s::text::text[], %(keeps)s::text::bigint[],
    %(stranded)s::text::boolean[], %(kinds)s::text::text[], %(asked_kinds)s::text::text[],
    %(notes)s::text::text[], %(failures)s::text::text[], %(workers)s::text::text[],
    %(hold_waits)s::text::bigint[], %(hold_ats)s::text::bigint[], %(first_keys)s::text::text[],
    %(unstarted)s::text::boolean[], %(told)s::text::boolean[], %(signals)s::text::text[],
    %(groups)s::text::text[]
  ) as v (id, token, state, wait, at, counts, result, error, keep, stranded, kind, asked_kind,
          note, failure, worker, hold_wait, hold_at, first_key, unstarted, told, signal,
          failure_group)
  join mita._job as j on j.id = v.id and j.token = v.token and j.state = {hidden_running}
  cross join clock
  for update of j
),
deleted as (
  delete from mita._job as j using held as h
  where j.id = h.id and h.keep = 0 and h.state in {terminal}
),
written as (
  update mita._job as j
  set state = h.state, due = h.due, error = coalesce(h.error, j.error),
      result = case when h.state = {to_succeed} then h.result end,
      {count},
      stranded = case when h.stranded then coalesce(j.stranded, clock.now) end,
      timeline = case when h.kind is null then j.timeline
                      else mita._noted(j.timeline, clock.now, h.kind, h.note,
                                       coalesce(h.worker, j.worker), h.failure, j.started) end,
      worker = case when h.state in {terminal} then j.worker end,
      finished = case when h.state in {terminal} then clock.now end,
      expires = case when h.state in {terminal} then clock.now + h.keep end,
      blocked_at = case when h.state = {blocked} then h.first_key end,
      failure_group = case when h.state = {failed} then h.failure_group end,
      lease_until = null, asked = null, asked_due = null, asked_keep = null
  from held as h, clock
  where j.id = h.id and (h.keep > 0 or h.state in {waiting})
),
on_hold as (
  insert into mita._hold (queue, key, until)
  select h.queue, h.first_key, h.hold from held as h
  where h.hold is not null and h.first_key is not null
  on conflict (queue, key) do update set until = excluded.until
),
freed as (
  update mita._unique as u set until = clock.now + h.unique_for
  from held as h, clock
  where u.queue = h.queue and u.key = h.uniq and u.id = h.id and h.state in {terminal}
    and u.until is null
),
given_back as (
  update mita._queue_limit as l
  set tat_us = greatest(0, l.tat_us - (
    select sum(greatest(0, starts.count * (l.stored_limit -> 1)::bigint - starts.late_us))
    from (
      select count(*), greatest(0, clock.now - h.started) * 1000 as late_us
      from held as h, clock where h.unstarted and h.queue = l.queue group by h.started, clock.now
    ) as starts
  ))
  where l.queue in (select h.queue from held as h where h.unstarted)
    and jsonb_typeof(l.stored_limit -> 1) = 'number'
    and (l.stored_limit -> 1)::numeric between 0 and {longest_interval_us}
)
select h.id, h.state, h.queue, h.queue in (select l.queue from mita._queue_limit as l),
       case when h.state = {queued} and h.due < clock.now - {behind_ms}
            then nextval('mita._behind') end
from held as h, clock
