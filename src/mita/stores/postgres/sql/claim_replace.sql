-- claim_replace: the other jobs that wait at a key end, because this one replaces them.
-- In: queue, key, id, keep (the retention in ms).  Out: id, task and queue of each.
with clock as materialized (select {now} as now),
ended as (
  update mita._job as j
  set state = {to_skip}, finished = clock.now, expires = clock.now + %(keep)s::bigint,
      blocked_at = null,
      timeline = mita._noted(
        j.timeline, clock.now, {kind_replaced}, {replaced_note} || %(id)s::text, null)
  from clock
  where j.state = {blocked} and j.queue = %(queue)s and j.blocked_at = %(key)s and j.id <> %(id)s
  returning j.id, j.task, j.queue, j.uniq, j.unique_for
),
freed as (
  update mita._unique as u set until = clock.now + least(e.unique_for, {latest})
  from ended as e, clock
  where u.queue = e.queue and u.key = e.uniq and u.id = e.id and u.until is null
)
select id, task, queue from ended
