-- reap_any_unreachable: whether a job is where no claim and no reap would find it: a priority, a
-- due time or a lease is out of bounds, or a blocked job has no key. The indexes alone answer.
-- In: nothing.  Out: true or false.
with queue as materialized (select distinct name from mita._queue)
select exists (
    select 1 from queue as q cross join lateral (
      select 1 from mita._job as j
      where j.state = {queued} and j.fair is null and j.queue = q.name
        and j.priority > {highest_priority}
      limit 1) as j)
  or exists (
    select 1 from queue as q cross join lateral (
      select 1 from mita._job as j
      where j.state = {queued} and j.fair is null and j.queue = q.name
        and j.priority < {lowest_priority}
      limit 1) as j)
  or exists (
    select 1 from mita._job as j
    where j.state = {queued} and (j.due < 0 or j.due > {latest}))
  or exists (
    select 1 from mita._job as j
    where j.state = {queued} and j.fair is not null
      and j.priority not between {lowest_priority} and {highest_priority})
  or exists (
    select 1 from mita._job as j where j.state = {running} and j.lease_until > {latest})
  or exists (select 1 from mita._job as j where j.state = {running} and j.lease_until < 0)
  or exists (select 1 from mita._job as j where j.state = {running} and j.lease_until is null)
  or exists (
    select 1 from queue as q cross join lateral (
      select 1 from mita._job as j
      where j.state = {blocked} and j.queue = q.name and j.blocked_at is null
        and j.resource is null
      limit 1) as j)
