-- ahead_in_turn: all ready jobs of the queue of this job, and whose turn it is there.
-- In: id.
-- Out: first a row with the turns as JSON; then for each job null, priority, group, due, seq, id,
--     weight.
with clock as materialized (select {now} as now),
me as materialized (select j.queue from mita._job as j where j.id = %(id)s),
header as (
  select coalesce(json_agg(json_build_array(t.priority, t.virtual, t.finished)), '[]')::text
    as turns
  from mita._turn as t, me where t.queue = me.queue
)
select turns, null::int, null::text, null::bigint, null::bigint, null::text, null::int from header
union all
select null, j.priority, j.fair, j.due, j.seq, j.id, coalesce(j.weight, {normal_weight})
from clock, me
cross join lateral (
  select * from mita._job as j
  where j.state = {queued} and j.fair is null and j.queue = me.queue
  union all
  select * from mita._job as j
  where j.state = {queued} and j.fair is not null and j.queue = me.queue
) as j
where j.due <= clock.now
