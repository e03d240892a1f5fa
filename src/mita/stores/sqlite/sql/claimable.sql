-- claimable: the next due jobs of one queue as ONE JSON text, in the order in which they go: priority, due time, age.
-- In: queue, now, limit.  Out: one text, a list of lists; blobs as hexadecimal digits. What most jobs have not (counters above
-- zero, keys, a checkpoint …) is a list of its own at the end, or null.
-- One text and not many rows, because each row that is fetched gives up the interpreter lock: beside a handler that keeps the
-- processor busy, a hundred rows would take a hundred turns of five milliseconds.
-- No "order by": for each priority the index is walked in (due, seq) order. Sorting would read the whole backlog.
select json_group_array(json_array(
         seq, id, token + 1, task, queue, hex(payload), hex(options), priority, due, created,
         case when attempts + reschedules + busy + interruptions + crashes > 0
                or coalesce(resource, uniq, repeat, progress, stranded) is not null or headers <> x''
         then json_array(hex(headers), attempts, reschedules, busy, interruptions, crashes, resource, uniq, repeat, fire_time,
                         hex(progress), stranded, most, when_busy)
         end))
from (
  select j.*
  from (values (9), (8), (7), (6), (5), (4), (3), (2), (1), (0)) as p
  cross join _mita_job as j indexed by _mita_ready
  where j.state = 'queued' and j.queue = :queue and j.priority = p.column1 and j.due <= :now
  limit :limit
)
