-- Add queues that have waiting jobs and no readable record of their own.  Out: name.
-- The recursion goes from queue to queue over the index, so a queue with 100,000 jobs costs no more
-- than a queue with one.
insert into _mita_queue (name)
with recursive q (name) as (
  select min(queue) from _mita_job indexed by _mita_ready where state = {queued}
  union all
  select (select min(queue) from _mita_job indexed by _mita_ready
          where state = {queued} and queue > q.name)
  from q where q.name is not null
)
select name from q where typeof(name) = 'text'
on conflict (name) do nothing
returning name
