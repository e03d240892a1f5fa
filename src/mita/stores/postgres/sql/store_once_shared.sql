-- store_once_shared: store a value for all jobs, unless there is one.
-- In: id, token, name, value, keep (ms).  Out: the stored value; no row if the claim is lost.
insert into mita._memo as m (name, value, expires)
select %(name)s, %(value)s::bytea, clock.now + %(keep)s::bigint
from (select {now} as now) as clock, mita._job as j
where j.id = %(id)s and j.token = %(token)s::bigint and j.state = {hidden_running}
on conflict (name) do update
set value = case when m.expires > {now} then m.value else excluded.value end,
    expires = case when m.expires > {now} then m.expires else excluded.expires end
returning value
