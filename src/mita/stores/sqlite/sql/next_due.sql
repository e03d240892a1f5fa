-- next_due: when the next job of one queue is due, or a hold ends that somebody waits for.  In: queue, now.  Out: a moment or null.
select min(moment) from (
  select (select due from _mita_job indexed by _mita_ready
          where state = 'queued' and queue = :queue and priority = p.column1 and due > :now and typeof(due) = 'integer' order by due limit 1) as moment
  from (values (9), (8), (7), (6), (5), (4), (3), (2), (1), (0)) as p
  union all
  select h.until from _mita_hold as h
  where h.queue = :queue and h.until > :now and typeof(h.until) = 'integer' and exists (
    select 1 from _mita_job indexed by _mita_waiters
    where state = 'blocked' and queue = h.queue and resource = h.key)
)
