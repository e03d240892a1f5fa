-- expired: jobs whose lease ran out, the longest first, as ONE JSON text like `claimable`, with the worker of each.  In: now, limit.
select json_group_array(json_array(
         seq, id, token + 1, task, queue, hex(payload), hex(options), priority, due, created,
         case when attempts + reschedules + busy + interruptions + crashes > 0
                or coalesce(resource, uniq, repeat, progress, stranded) is not null or headers <> x''
         then json_array(hex(headers), attempts, reschedules, busy, interruptions, crashes, resource, uniq, repeat, fire_time,
                         hex(progress), stranded, most, when_busy)
         end, worker))
from (
  select * from _mita_job indexed by _mita_leased
  where state = 'running' and lease_until <= :now order by lease_until, seq limit :limit
)
