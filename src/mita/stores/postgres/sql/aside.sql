-- set_aside: records that cannot be read become failed jobs, and their unique keys are free. Nothing else of them is changed.
-- In: ids, reasons, keep.  Out: id.
with clock as materialized (select {now} as now),
freed as (delete from mita._unique as u using unnest(%(ids)s::text::text[]) as v (id) where u.id = v.id)
update mita._job as j
set state = 'failed', finished = clock.now, expires = clock.now + %(keep)s::bigint, error = coalesce(j.error, v.reason),
    timeline = mita._noted(j.timeline, clock.now, 'failed', v.reason, null)
from unnest(%(ids)s::text::text[], %(reasons)s::text::text[]) as v (id, reason), clock
where j.id = v.id and j.state in ('queued', 'blocked', 'running')
returning j.id
