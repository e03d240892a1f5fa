-- The earliest due time in one queue, of all groups.  In: queue.  Out: a point in time, or null.
with recursive p (priority) as ({priorities_in_use}
), g (priority, fair) as (
  select p.priority, (
    select min(fair) from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = p.priority and fair is not null)
  from p
  union all
  select g.priority, (
    select min(fair) from _mita_job indexed by _mita_ready
    where state = {queued} and queue = :queue and priority = g.priority and fair > g.fair)
  from g where g.fair is not null
)
select min(due) from (
  select (select due from _mita_job indexed by _mita_ready
          where state = {queued} and queue = :queue and priority = g.priority and fair is g.fair
          order by due limit 1) as due
  from (select priority, fair from g where fair is not null
        union all select priority, null from p) as g
)
where typeof(due) = 'integer'
