-- store_once: store a value for the life of a job, unless there is one.
-- In: id, token, name, value.  Out: the stored value; no row if the claim is lost.
update mita._job as j
set memos = jsonb_build_object(%(name)s::text, encode(%(value)s::bytea, 'base64'))
            || coalesce(j.memos, '{}')
where j.id = %(id)s and j.token = %(token)s::bigint and j.state = {hidden_running}
returning decode(j.memos ->> %(name)s::text, 'base64')
