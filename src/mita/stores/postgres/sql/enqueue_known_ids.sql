-- known_ids: which of these ids are there.  In: ids.
select j.id from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
