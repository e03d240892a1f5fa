-- store_once: a value for the life of a job, unless there is one already.  In: id, token, name, value.
-- Out: the value that stands; no row when the token is stale.
update mita._job as j
set memos = jsonb_build_object(%(name)s::text, encode(%(value)s::bytea, 'base64')) || coalesce(j.memos, '{}')
where j.id = %(id)s and j.token = %(token)s::bigint and j.state = {running}
returning decode(j.memos ->> %(name)s::text, 'base64')
