-- claim_show: the first due jobs of one queue, of each priority and group: what
-- `limits.ready_order` needs to say in which order they start. Nothing is taken.
-- In: queue, limit (how many may start), watermark (no lease ends before).
-- Out: first a row with a header, the JSON object of `codec.QueueHeader`; then a row for each job,
--     with null as its header, its group and the columns of `codec.ShownJob`. `group_jobs` is how
--     many jobs of a group are shown at most: if all groups have jobs, they start about equally
--     many.
with recursive clock as materialized (select {now} as now),
grouped (priority, fair) as (
  (select j.priority, j.fair from mita._job as j
   where j.state = {queued} and j.fair is not null and j.queue = %(queue)s
   order by j.priority, j.fair limit 1)
  union all
  select n.priority, n.fair from grouped as g
  cross join lateral (
    select j.priority, j.fair from mita._job as j
    where j.state = {queued} and j.fair is not null and j.queue = %(queue)s
      and (j.priority, j.fair) > (g.priority, g.fair)
    order by j.priority, j.fair limit 1) as n
),
ungrouped (priority, first) as (
  (select j.priority, j.due from mita._job as j
   where j.state = {queued} and j.fair is null and j.queue = %(queue)s
     and j.priority between {lowest_priority} and {highest_priority}
   order by j.priority, j.due limit 1)
  union all
  select n.priority, n.due from ungrouped as g
  cross join lateral (
    select j.priority, j.due from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = %(queue)s
      and j.priority > g.priority and j.priority <= {highest_priority}
    order by j.priority, j.due limit 1) as n
),
bound as materialized (
  select (2 + 3 * %(limit)s::bigint / (2 * greatest(1, (select count(*) from grouped)))) as jobs
),
shown as materialized (
  select g.fair as name, j.*
  from clock cross join bound cross join grouped as g
  cross join lateral (
    select {shown_columns} from mita._job as j
    where j.state = {queued} and j.fair is not null and j.queue = %(queue)s
      and j.priority = g.priority and j.fair = g.fair and j.due <= clock.now
    order by j.due, j.seq limit bound.jobs) as j
  union all
  select null, j.*
  from clock cross join bound cross join ungrouped as g
  cross join lateral (
    select {shown_columns} from mita._job as j
    where j.state = {queued} and j.fair is null and j.queue = %(queue)s
      and j.priority = g.priority and j.due <= clock.now and j.due >= g.first
    order by j.due, j.seq limit bound.jobs) as j
),
header as (
  select clock.now, bound.jobs as group_jobs,
         %(queue)s in (select l.queue from mita._limited as l where l.is_fair) as is_fair,
         (select count(*) from mita._job as j
          where j.state = {running} and j.lease_until >= %(watermark)s::bigint
            and j.queue = %(queue)s
            and exists (select 1 from mita._queue_limit as l
                        where l.queue = %(queue)s
                          and l.stored_limit -> 0 is distinct from 'null')) as running,
         (select json_agg(json_build_array(t.priority, t.virtual, t.finished))
          from mita._turn as t where t.queue = %(queue)s) as turns,
         least(
           (select min(j.due)
            from grouped as g
            cross join lateral (
              select j.due from mita._job as j
              where j.state = {queued} and j.fair is not null and j.queue = %(queue)s
                and j.priority = g.priority and j.fair = g.fair and j.due > clock.now
              order by j.due limit 1) as j),
           (select min(j.due)
            from ungrouped as g
            cross join lateral (
              select j.due from mita._job as j
              where j.state = {queued} and j.fair is null and j.queue = %(queue)s
                and j.priority = g.priority and j.due > clock.now
              order by j.due limit 1) as j)) as next_due
  from clock, bound
)
select row_to_json(header)::text as header, {shown_nulls} from header
union all
select null, shown.* from shown
