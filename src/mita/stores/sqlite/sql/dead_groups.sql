-- Groups of failed jobs by queue and task, with the number of their jobs. Each is found by a search
-- behind the one before, so only the jobs of the groups that are asked for are counted.
-- In: queue, task; null means any.  Out: group, queue, task, count, when the last job failed.
with recursive
a (failure_group) as (
  select (select coalesce(failure_group, '') from _mita_job indexed by _mita_dead
          where state = {failed} order by coalesce(failure_group, '') limit 1)
  union all
  select (select coalesce(failure_group, '') from _mita_job indexed by _mita_dead
          where state = {failed} and coalesce(failure_group, '') > a.failure_group
          order by coalesce(failure_group, '') limit 1)
  from a where a.failure_group is not null
),
b (failure_group, queue) as (
  select a.failure_group, (select queue from _mita_job indexed by _mita_dead
    where state = {failed} and coalesce(failure_group, '') = a.failure_group
    order by queue limit 1)
  from a where a.failure_group is not null
  union all
  select b.failure_group, (select queue from _mita_job indexed by _mita_dead
    where state = {failed} and coalesce(failure_group, '') = b.failure_group
      and queue > b.queue order by queue limit 1)
  from b where b.queue is not null
),
c (failure_group, queue, task) as (
  select b.failure_group, b.queue, (select task from _mita_job indexed by _mita_dead
    where state = {failed} and coalesce(failure_group, '') = b.failure_group
      and queue = b.queue order by task limit 1)
  from b where b.queue is not null and (:queue is null or b.queue = :queue)
  union all
  select c.failure_group, c.queue, (select task from _mita_job indexed by _mita_dead
    where state = {failed} and coalesce(failure_group, '') = c.failure_group
      and queue = c.queue and task > c.task order by task limit 1)
  from c where c.task is not null
)
select c.failure_group, c.queue, c.task,
  (select count(*) from _mita_job indexed by _mita_dead
   where state = {failed} and coalesce(failure_group, '') = c.failure_group
     and queue = c.queue and task = c.task),
  (select finished from _mita_job indexed by _mita_dead
   where state = {failed} and coalesce(failure_group, '') = c.failure_group
     and queue = c.queue and task = c.task order by finished desc limit 1)
from c where c.task is not null and (:task is null or c.task = :task)
