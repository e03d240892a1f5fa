-- aside: turn waiting and running jobs that cannot be read into failed ones, and free their unique
-- keys. Nothing else of their rows is changed. The flows of steps look after them now, and not only
-- at their next patrol.
-- In: ids, reasons, keep (the retention in ms).  Out: the ids that were changed.
with clock as materialized (select {now} as now),
freed as (
  delete from mita._unique as u using unnest(%(ids)s::text::text[]) as v (id) where u.id = v.id
),
looking as (
  update mita._job as f set due = clock.now
  from unnest(%(ids)s::text::text[]) as v (id), clock
  where length(v.id) > {longest_plain_id} and f.id = left(v.id, -{step_suffix})
    and f.task in {flow_tasks} and f.state = {hidden_queued} and f.due > clock.now
    and f.id <> all (%(ids)s::text::text[])
)
update mita._job as j
set state = {failed}, finished = clock.now, expires = clock.now + %(keep)s::bigint,
    error = coalesce(j.error, v.reason),
    timeline = mita._noted(j.timeline, clock.now, {kind_failed}, v.reason, null)
from unnest(%(ids)s::text::text[], %(reasons)s::text::text[]) as v (id, reason), clock
where j.id = v.id and j.state in {alive}
returning j.id
