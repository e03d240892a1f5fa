-- queues_ready: how many jobs of each queue are due, and for how long the oldest has been.
-- In: nothing.  Out: queue, number, ms.
with recursive line (queue, priority) as (
  select q.name, first.priority
  from (select distinct name from mita._queue) as q
  cross join lateral (
    select j.priority from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = q.name
    order by j.priority limit 1) as first
  union all
  select line.queue, next.priority
  from line
  cross join lateral (
    select j.priority from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = line.queue
      and j.priority > line.priority
    order by j.priority limit 1) as next
)
select j.queue, count(*), min(clock.now) - greatest(min(j.due), 0)
from (select {now} as now) as clock
cross join lateral (
  select j.queue, j.due
  from line
  join mita._job as j
    on j.state = {queued} and j.fair is null and j.queue = line.queue
   and j.priority = line.priority and j.due <= clock.now
  union all
  select j.queue, j.due from mita._job as j
  where j.state = {queued} and j.fair is not null and j.due <= clock.now
) as j
group by j.queue
