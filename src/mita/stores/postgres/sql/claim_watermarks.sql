-- claim_watermarks: the due time of the first waiting job of each queue and priority.
-- In: queues, priorities, watermarks (from where to read).
-- Out: now, the due time or null; in the order given.
select clock.now,
       (select j.due from mita._job as j
        where j.state = {queued} and j.fair is null and j.queue = line.queue
          and j.priority = line.priority and j.due >= line.watermark
        order by j.due limit 1)
from (select {now} as now) as clock
cross join unnest(
  %(queues)s::text::text[], %(priorities)s::text::int[], %(watermarks)s::text::bigint[]
) with ordinality as line (queue, priority, watermark, n)
order by line.n
