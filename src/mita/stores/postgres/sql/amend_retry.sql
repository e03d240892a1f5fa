-- amend_retry: a failed or cancelled job runs again, with its counters at zero, unless its unique key is another's now.
-- In: id, wait, at, note.  Out: id, queue, state (as found), whether it was revived.
with moment as materialized (
  select clock.now, case when %(at)s::bigint is null then clock.now + %(wait)s::bigint else greatest(%(at)s::bigint, clock.now) end as due
  from (select {now} as now) as clock
),
found as materialized (select j.id, j.queue, j.state, j.uniq from mita._job as j where j.id = %(id)s for update),
got as (
  insert into mita._unique as u (queue, key, id)
  select f.queue, f.uniq, f.id from found as f where f.uniq is not null and f.state in ('failed', 'cancelled')
  on conflict (queue, key) do update set id = excluded.id, until = null where u.id = excluded.id or u.until <= (select now from moment)
  returning u.id
),
revived as (
  update mita._job as j
  set state = 'queued', due = m.due, attempts = 0, reschedules = 0, busy = 0, interruptions = 0, crashes = 0,
      error = null, result = null, finished = null, expires = null, stranded = null, worker = null, started = null,
      timeline = mita._noted(j.timeline, m.now, 'revived', %(note)s::text, null)
  from found as f, moment as m
  where j.id = f.id and f.state in ('failed', 'cancelled') and (f.uniq is null or exists (select 1 from got))
  returning j.id
)
select f.id, f.queue, f.state, exists (select 1 from revived) from found as f
