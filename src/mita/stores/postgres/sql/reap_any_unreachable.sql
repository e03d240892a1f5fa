-- any_unmet: does a job stand where no claim or reap looks? A priority, a due time or a lease out of bounds, a blocked job without a key.
-- Found by the indexes alone.  Out: true or false.
select exists (select 1 from (select distinct name from mita._queue) as q
               cross join lateral (select 1 from mita._job as j where j.state = 'queued' and j.queue = q.name and j.priority > 9 limit 1) as j)
    or exists (select 1 from (select distinct name from mita._queue) as q
               cross join lateral (select 1 from mita._job as j where j.state = 'queued' and j.queue = q.name and j.priority < 0 limit 1) as j)
    or exists (select 1 from (select distinct name from mita._queue) as q cross join generate_series(0, 9) as p (priority)
               cross join lateral (select 1 from mita._job as j where j.state = 'queued' and j.queue = q.name
                                   and j.priority = p.priority and j.due > 253402300799999 limit 1) as j)
    or exists (select 1 from (select distinct name from mita._queue) as q cross join generate_series(0, 9) as p (priority)
               cross join lateral (select 1 from mita._job as j where j.state = 'queued' and j.queue = q.name
                                   and j.priority = p.priority and j.due < 0 limit 1) as j)
    or exists (select 1 from mita._job as j where j.state = 'running' and j.lease_until > 253402300799999)
    or exists (select 1 from mita._job as j where j.state = 'running' and j.lease_until < 0)
    or exists (select 1 from mita._job as j where j.state = 'running' and j.lease_until is null)
    or exists (select 1 from (select distinct name from mita._queue) as q
               cross join lateral (select 1 from mita._job as j where j.state = 'blocked' and j.queue = q.name and j.resource is null limit 1) as j)
