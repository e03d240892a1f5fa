-- settle: put jobs down as their verdicts say; what was asked while they ran comes first. Holds are set and unique keys freed.
-- In: one array for each part of a verdict.  Out: id, state, queue; of those that took.
with clock as materialized (select {now} as now),
held as materialized (
  select j.id, j.queue, j.resource, j.uniq, j.unique_for, v.counts, v.error, v.stranded, v.note, v.failure, v.worker, v.result,
         case j.asked when 'cancel' then 'cancelled' when 'reschedule' then 'queued' else v.state end as state,
         case j.asked when 'cancel' then j.asked_keep when 'reschedule' then 0 else v.keep end as keep,
         case when j.asked = 'reschedule' then j.asked_due when j.asked = 'cancel' then j.due
              when v.at is not null then greatest(v.at, clock.now) else coalesce(clock.now + v.wait, j.due) end as due,
         coalesce(nullif(v.event, ''), case when j.asked is not null then v.state end) as event,
         case when v.hold_at is null then clock.now + v.hold_wait else greatest(v.hold_at, clock.now) end as hold
  from unnest(
    %(ids)s::text::text[], %(tokens)s::text::bigint[], %(states)s::text::text[], %(waits)s::text::bigint[], %(ats)s::text::bigint[],
    %(counts)s::text::text[], %(results)s::text::bytea[], %(errors)s::text::text[], %(keeps)s::text::bigint[],
    %(stranded)s::text::boolean[], %(events)s::text::text[], %(notes)s::text::text[], %(failures)s::text::text[], %(workers)s::text::text[], %(hold_waits)s::text::bigint[],
    %(hold_ats)s::text::bigint[]
  ) as v (id, token, state, wait, at, counts, result, error, keep, stranded, event, note, failure, worker, hold_wait, hold_at)
  join mita._job as j on j.id = v.id and j.token = v.token and j.state = {running}
  cross join clock
  for update of j
),
forgotten as (
  delete from mita._job as j using held as h
  where j.id = h.id and h.keep = 0 and h.state in ('succeeded', 'failed', 'cancelled')
),
written as (
  update mita._job as j
  set state = h.state, due = h.due, error = coalesce(h.error, j.error),
      result = case when h.state = 'succeeded' then h.result end,
      attempts = j.attempts + (h.counts = 'attempts')::int, reschedules = j.reschedules + (h.counts = 'reschedules')::int,
      busy = j.busy + (h.counts = 'busy')::int, interruptions = j.interruptions + (h.counts = 'interruptions')::int,
      crashes = j.crashes + (h.counts = 'crashes')::int,
      stranded = case when h.stranded then coalesce(j.stranded, clock.now) end,
      timeline = case when h.event is null then j.timeline else mita._noted(j.timeline, clock.now, h.event, h.note, coalesce(h.worker, j.worker), h.failure, j.started) end,
      worker = case when h.state in ('queued', 'blocked') then null else j.worker end,
      finished = case when h.state in ('queued', 'blocked') then null else clock.now end,
      expires = case when h.state in ('queued', 'blocked') then null else clock.now + h.keep end,
      lease_until = null, asked = null, asked_due = null, asked_keep = null
  from held as h, clock
  where j.id = h.id and (h.keep > 0 or h.state in ('queued', 'blocked'))
),
on_hold as (
  insert into mita._hold (queue, key, until)
  select h.queue, h.resource, h.hold from held as h where h.hold is not null and h.resource is not null
  on conflict (queue, key) do update set until = excluded.until
),
freed as (
  update mita._unique as u set until = clock.now + h.unique_for
  from held as h, clock
  where u.queue = h.queue and u.key = h.uniq and u.id = h.id and h.state in ('succeeded', 'failed', 'cancelled')
)
select h.id, h.state, h.queue, case when h.state = 'queued' and h.due < clock.now - 500 then nextval('mita._behind') end
from held as h, clock
