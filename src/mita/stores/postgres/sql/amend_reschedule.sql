-- amend_reschedule: run at another time; a running job finishes its run first.  In: ids, wait, at, note.  Out: id, queue, state, asked; as found.
with moment as materialized (
  select clock.now, case when %(at)s::bigint is null then clock.now + %(wait)s::bigint else greatest(%(at)s::bigint, clock.now) end as due
  from (select {now} as now) as clock
),
found as materialized (
  select j.id, j.queue, j.state, j.asked
  from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
  for update of j
),
moved as (
  update mita._job as j
  set state = 'queued', due = m.due, reschedules = j.reschedules + 1,
      timeline = mita._noted(j.timeline, m.now, 'rescheduled', %(note)s::text, null)
  from found as f, moment as m
  where j.id = f.id and f.state in ('queued', 'blocked')
),
asked as (
  update mita._job as j
  set asked = 'reschedule', asked_due = m.due, asked_keep = null, reschedules = j.reschedules + 1,
      timeline = mita._noted(j.timeline, m.now, 'rescheduled', %(note)s::text, null)
  from found as f, moment as m
  where j.id = f.id and f.state = 'running' and f.asked is distinct from 'cancel'
)
select id, queue, state, asked from found
