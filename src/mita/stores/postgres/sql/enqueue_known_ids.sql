-- enqueue_known_ids: In: ids.  Out: those of them that are stored.
select j.id from unnest(%(ids)s::text::text[]) as v (id) join mita._job as j on j.id = v.id
