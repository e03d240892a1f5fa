-- When the next job of one queue without groups is due.
-- In: queue, now.  Out: a point in time, or null.
with recursive p (priority) as ({priorities_in_use})
select min(moment) from (
  select (select due from _mita_job indexed by _mita_ready
          where state = {queued} and queue = :queue and priority = p.priority and fair is null
            and due > :now and typeof(due) = 'integer'
          order by due limit 1) as moment
  from p
)
