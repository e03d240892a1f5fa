-- amend_cancel: cancel jobs. A waiting job ends at once, a running one is asked to end.
-- In: ids, keep (the retention in ms), reason.  Out: id, queue, state, asked, blocked_at, all as
--     found.
with clock as materialized (select {now} as now),
found as materialized (
  select j.id, j.queue, j.state, j.asked, j.blocked_at, j.uniq, j.unique_for
  from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
  for update of j
),
deleted as (
  delete from mita._job as j using found as f
  where j.id = f.id and f.state in {waiting} and %(keep)s::bigint = 0
),
ended as (
  update mita._job as j
  set state = {to_cancel}, finished = clock.now, expires = clock.now + %(keep)s::bigint,
      blocked_at = null,
      timeline = mita._noted(j.timeline, clock.now, {kind_cancelled}, %(reason)s, null)
  from found as f, clock
  where j.id = f.id and f.state in {waiting} and %(keep)s::bigint > 0
),
asked as (
  update mita._job as j
  set asked = {asked_cancel}, asked_due = null, asked_keep = %(keep)s::bigint,
      timeline = mita._noted(j.timeline, clock.now, {kind_cancelled}, %(reason)s, null)
  from found as f, clock
  where j.id = f.id and f.state = {running} and not {too_late_to_cancel}
),
freed as (
  update mita._unique as u set until = clock.now + f.unique_for
  from found as f, clock
  where u.queue = f.queue and u.key = f.uniq and u.id = f.id and f.state in {waiting}
    and u.until is null
)
select id, queue, state, asked, blocked_at from found
