-- The group of all queued jobs of a queue, if it is only one, and how far its turns are.
-- In: queue.
-- Out: priority, group (null: none), virtual time of the queue and of the group, number of groups
-- that have one; or no row if there are several groups or none.
select priority, first,
       (select virtual from _mita_turn as t where t.queue = :queue and t.priority = g.priority),
       (select finished from _mita_share as s
        where s.queue = :queue and s.priority = g.priority and s.fair = coalesce(first, '')),
       (select count(*) from _mita_share as s where s.queue = :queue and s.priority = g.priority)
from (
  select lowest as priority,
         (select fair from _mita_job indexed by _mita_ready
          where state = {queued} and queue = :queue and priority = lowest
          order by fair limit 1) as first,
         (select fair from _mita_job indexed by _mita_ready
          where state = {queued} and queue = :queue and priority = lowest
          order by fair desc limit 1) as last
  from (
    select (select min(priority) from _mita_job indexed by _mita_ready
            where state = {queued} and queue = :queue) as lowest,
           (select max(priority) from _mita_job indexed by _mita_ready
            where state = {queued} and queue = :queue) as highest
    limit 1)
  where lowest = highest
  limit 1) as g
where first is last
