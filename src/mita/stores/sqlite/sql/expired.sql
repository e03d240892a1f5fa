-- expired: jobs whose lease ran out, the longest first, as ONE JSON text like `claimable`.  In: now, limit.
select json_group_array(json_array(
         seq, most, when_busy, id, token + 1, task, queue, hex(payload), hex(options), hex(headers), priority, due, created,
         attempts, reschedules, busy, interruptions, crashes, resource, uniq, repeat, fire_time, hex(progress), stranded))
from (
  select * from _mita_job indexed by _mita_leased
  where state = 'running' and lease_until <= :now order by lease_until, seq limit :limit
)
