-- reap_name_keys: jobs that a worker of version 0.1 has blocked wait at their resource key.
-- In: nothing.  Out: no row.
update mita._job as j set blocked_at = j.resource
where j.state = {blocked} and j.id in (
  select w.id from (select distinct name from mita._queue) as q
  cross join lateral (
    select w.id from mita._job as w
    where w.state = {blocked} and w.queue = q.name and w.blocked_at is null
      and w.resource is not null
    limit 1000) as w)
