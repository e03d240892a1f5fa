-- cancel: do not run any more; a running job is told.  In: ids, keep, reason.  Out: id, queue, state, asked; as found.
with clock as materialized (select {now} as now),
found as materialized (
  select j.id, j.queue, j.state, j.asked, j.uniq, j.unique_for
  from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
  for update of j
),
forgotten as (
  delete from mita._job as j using found as f
  where j.id = f.id and f.state in ('queued', 'blocked') and %(keep)s::bigint = 0
),
ended as (
  update mita._job as j
  set state = 'cancelled', finished = clock.now, expires = clock.now + %(keep)s::bigint,
      timeline = mita._noted(j.timeline, clock.now, 'cancelled', %(reason)s, null)
  from found as f, clock
  where j.id = f.id and f.state in ('queued', 'blocked') and %(keep)s::bigint > 0
),
asked as (
  update mita._job as j
  set asked = 'cancel', asked_due = null, asked_keep = %(keep)s::bigint,
      timeline = mita._noted(j.timeline, clock.now, 'cancelled', %(reason)s, null)
  from found as f, clock
  where j.id = f.id and f.state = 'running'
),
freed as (
  update mita._unique as u set until = clock.now + f.unique_for
  from found as f, clock
  where u.queue = f.queue and u.key = f.uniq and u.id = f.id and f.state in ('queued', 'blocked')
)
select id, queue, state, asked from found
