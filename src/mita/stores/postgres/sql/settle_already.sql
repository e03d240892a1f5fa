-- settle_already: after an answer was lost, which of these claims are settled already.
-- In: ids, tokens.  Out: id.
select v.id from unnest(%(ids)s::text::text[], %(tokens)s::text::bigint[]) as v (id, token)
left join mita._job as j on j.id = v.id
where j.id is null or (j.token = v.token and j.state <> {running})
