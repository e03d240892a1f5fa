-- skip: a job that found its key taken ends without having run.  In: ids, keep.
with clock as materialized (select {now} as now),
ended as (
  update mita._job as j
  set state = 'cancelled', busy = least(j.busy, 999999999) + 1, finished = clock.now, expires = clock.now + %(keep)s::bigint,
      timeline = mita._noted(j.timeline, clock.now, 'skipped', j.resource || ' is taken', null)
  from unnest(%(ids)s::text::text[]) as v (id), clock
  where j.id = v.id and j.state = {queued}
  returning j.id, j.queue, j.uniq, j.unique_for
)
update mita._unique as u set until = clock.now + least(e.unique_for, 253402300799999)
from ended as e, clock
where u.queue = e.queue and u.key = e.uniq and u.id = e.id
