-- The queued jobs of each queue. Jobs without a group are counted by ranges of the index, which
-- takes a fraction of the time that a look at each due time takes.
-- In: now.
-- Out: queue, how many jobs are due, the earliest due time, how many are due later, and how many of
-- these have no due time.
with recursive q (name) as (
  select min(queue) from _mita_job indexed by _mita_ready where state = {queued}
  union all
  select (select min(queue) from _mita_job indexed by _mita_ready
          where state = {queued} and queue > q.name)
  from q where q.name is not null
), p (queue, priority) as (
  select q.name, (select min(priority) from _mita_job indexed by _mita_ready
                  where state = {queued} and queue = q.name)
  from q where q.name is not null
  union all
  select p.queue, (select min(priority) from _mita_job indexed by _mita_ready
                   where state = {queued} and queue = p.queue and priority > p.priority)
  from p where p.priority is not null
)
select queue, sum(ready), min(oldest), sum(later), sum(waiting) from (
  select p.queue as queue,
    (select count(*) from _mita_job indexed by _mita_ready
     where state = {queued} and queue = p.queue and priority = p.priority and fair is null
       and due <= :now) as ready,
    (select due from _mita_job indexed by _mita_ready
     where state = {queued} and queue = p.queue and priority = p.priority and fair is null
       and due <= :now order by due limit 1) as oldest,
    (select count(*) from _mita_job indexed by _mita_ready
     where state = {queued} and queue = p.queue and priority = p.priority and fair is null
       and due > :now) as later,
    (select count(*) from _mita_job indexed by _mita_ready
     where state = {queued} and queue = p.queue and priority = p.priority and fair is null
       and due = {latest}) as waiting
  from p where p.priority is not null
  union all
  select j.queue, count(*) filter (where j.due <= :now), min(j.due) filter (where j.due <= :now),
    count(*) filter (where j.due > :now), count(*) filter (where j.due = {latest})
  from p cross join _mita_job as j indexed by _mita_ready
  where j.state = {queued} and j.queue = p.queue and j.priority = p.priority
    and j.fair is not null
  group by j.queue
)
group by queue
