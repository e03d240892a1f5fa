-- replace: the other jobs that wait for a key give way to this one.  In: queue, key, id, keep.
with clock as materialized (select {now} as now),
ended as (
  update mita._job as j
  set state = 'cancelled', finished = clock.now, expires = clock.now + %(keep)s::bigint,
      timeline = mita._noted(j.timeline, clock.now, 'replaced', 'by ' || %(id)s::text, null)
  from clock
  where j.state = 'blocked' and j.queue = %(queue)s and j.resource = %(key)s and j.id <> %(id)s
  returning j.id, j.queue, j.uniq, j.unique_for
)
update mita._unique as u set until = clock.now + least(e.unique_for, 253402300799999)
from ended as e, clock
where u.queue = e.queue and u.key = e.uniq and u.id = e.id
