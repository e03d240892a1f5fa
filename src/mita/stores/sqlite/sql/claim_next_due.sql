-- When the next job of one queue is due, or a hold ends at which jobs wait.
-- In: queue, now.  Out: a point in time, or null.
select min(moment) from (
  select (select due from _mita_job indexed by _mita_ready
          where state = {queued} and queue = :queue and priority = p.column1 and due > :now
            and typeof(due) = 'integer'
          order by due limit 1) as moment
  from (values {priorities}) as p
  union all
  select h.until from _mita_hold as h
  where h.queue = :queue and h.until > :now and typeof(h.until) = 'integer' and exists (
    select 1 from _mita_job indexed by _mita_waiters
    where state = {blocked} and queue = h.queue and resource = h.key)
)
