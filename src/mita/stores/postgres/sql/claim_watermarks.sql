-- marks: the due time of the first job that waits, for each queue and priority.
-- In: queues, priorities, marks (from where to look).  Out: now, the due time or null; in the order given.
select clock.now,
       (select j.due from mita._job as j
        where j.state = 'queued' and j.queue = line.queue and j.priority = line.priority and j.due >= line.mark
        order by j.due limit 1)
from (select {now} as now) as clock
cross join unnest(%(queues)s::text::text[], %(priorities)s::text::int[], %(watermarks)s::text::bigint[])
  with ordinality as line (queue, priority, mark, n)
order by line.n
