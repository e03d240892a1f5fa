-- dead_groups: groups of failed jobs by queue and task, the largest groups first. Each is found by
-- a search behind the one before, so only the jobs of the groups that are asked for are counted,
-- and the hours only of those that are shown.
-- In: queue, task (null: any), limit, hours (how many), hour (its length in ms).
-- Out: group, count, when the first and the last job failed, the id of one that failed last, and an
--     array with the number of failures of each hour, the oldest hour first.
with recursive clock as materialized (select {now} as now),
part (name, queue, task) as (
  (select coalesce(j.failure_group, ''), j.queue, j.task from mita._job as j
   where j.state = {failed} order by 1, 2, 3 limit 1)
  union all
  select next.name, next.queue, next.task from part as p cross join lateral (
    select coalesce(j.failure_group, '') as name, j.queue, j.task from mita._job as j
    where j.state = {failed} and (coalesce(j.failure_group, ''), j.queue, j.task)
      > (p.name, p.queue, p.task)
    order by 1, 2, 3 limit 1
  ) as next
),
counted as materialized (
  select p.name, p.queue, p.task, jobs.count, last.id as sample, last.finished as last
  from part as p
  cross join lateral (
    select count(*) from mita._job as j
    where j.state = {failed} and coalesce(j.failure_group, '') = p.name and j.queue = p.queue
      and j.task = p.task
  ) as jobs
  cross join lateral (
    select j.id, j.finished from mita._job as j
    where j.state = {failed} and coalesce(j.failure_group, '') = p.name and j.queue = p.queue
      and j.task = p.task
    order by j.finished desc, j.seq desc limit 1
  ) as last
  where (%(queue)s::text is null or p.queue = %(queue)s)
    and (%(task)s::text is null or p.task = %(task)s)
),
chosen as (
  select c.name from counted as c group by c.name
  order by sum(c.count) desc, max(c.last) desc, c.name limit %(limit)s::bigint
)
select c.name, c.count, (
    select j.finished from mita._job as j
    where j.state = {failed} and coalesce(j.failure_group, '') = c.name and j.queue = c.queue
      and j.task = c.task
    order by j.finished limit 1
  ), c.last, c.sample, array(
    select (
      select count(*) from mita._job as j
      where j.state = {failed} and coalesce(j.failure_group, '') = c.name and j.queue = c.queue
        and j.task = c.task and j.finished > clock.now - hour.ago * %(hour)s::bigint
        and j.finished <= case when hour.ago = 1 then {latest}
                               else clock.now - (hour.ago - 1) * %(hour)s::bigint end)
    from generate_series(%(hours)s::bigint, 1, -1) as hour (ago) order by hour.ago desc)
from counted as c join chosen using (name) cross join clock
