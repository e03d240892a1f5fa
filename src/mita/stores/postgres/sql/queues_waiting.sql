-- queues_waiting: how many queued jobs each queue has: due now, not due yet (with those that have
-- no due time), and without a due time; and for how long the oldest has been due. Of jobs without
-- a group each number is a range of the index, for each priority in use, so that nothing but the
-- entries themselves is read.
-- In: nothing.  Out: queue, the three numbers, ms; several rows for a queue.
with recursive clock as materialized (select {now} as now),
line (queue, priority, first) as (
  select q.name, first.priority, first.due
  from (select distinct name from mita._queue) as q
  cross join lateral (
    select j.priority, j.due from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = q.name
    order by j.priority, j.due limit 1) as first
  union all
  select line.queue, next.priority, next.due
  from line
  cross join lateral (
    select j.priority, j.due from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = line.queue
      and j.priority > line.priority
    order by j.priority, j.due limit 1) as next
)
select line.queue,
       (select count(*) from mita._job as j
        where j.state = {queued} and j.fair is null and j.queue = line.queue
          and j.priority = line.priority and j.due <= clock.now),
       (select count(*) from mita._job as j
        where j.state = {queued} and j.fair is null and j.queue = line.queue
          and j.priority = line.priority and j.due > clock.now),
       (select count(*) from mita._job as j
        where j.state = {queued} and j.fair is null and j.queue = line.queue
          and j.priority = line.priority and j.due = {latest}),
       clock.now - greatest(line.first, 0)
from line, clock
union all
select j.queue, count(*) filter (where j.due <= clock.now),
       count(*) filter (where j.due > clock.now), count(*) filter (where j.due = {latest}),
       min(clock.now) - greatest(min(j.due), 0)
from mita._job as j, clock
where j.state = {queued} and j.fair is not null
group by j.queue
