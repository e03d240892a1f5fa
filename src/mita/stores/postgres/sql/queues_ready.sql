-- queues_ready: how many jobs of each queue are due, and for how long the oldest has been.
-- In: nothing.  Out: queue, number, ms.
select j.queue, count(*), min(clock.now) - greatest(min(j.due), 0)
from (select {now} as now) as clock
cross join lateral (
  select j.queue, j.due
  from (select distinct name from mita._queue) as q
  cross join generate_series({lowest_priority}, {highest_priority}) as p (priority)
  join mita._job as j
    on j.state = {queued} and j.fair is null and j.queue = q.name and j.priority = p.priority
   and j.due <= clock.now
  union all
  select j.queue, j.due from mita._job as j
  where j.state = {queued} and j.fair is not null and j.due <= clock.now
) as j
group by j.queue
