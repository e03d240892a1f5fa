-- store_once_shared: a value for all jobs, unless there is one already.  In: id, token, name, value, keep.
-- Out: the value that stands; no row when the token is stale.
insert into mita._memo as m (name, value, expires)
select %(name)s, %(value)s::bytea, clock.now + %(keep)s::bigint
from (select {now} as now) as clock, mita._job as j
where j.id = %(id)s and j.token = %(token)s::bigint and j.state = {running}
on conflict (name) do update
set value = case when m.expires > {now} then m.value else excluded.value end,
    expires = case when m.expires > {now} then m.expires else excluded.expires end
returning value
