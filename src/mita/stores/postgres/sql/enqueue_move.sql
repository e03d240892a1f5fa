-- enqueue_move: jobs that wait are due at another time, with new arguments.
-- In: ids, dues, payloads, options, headers, tags.  Out: the ids that were moved.
update mita._job as j
set state = {to_reschedule}, due = v.due, payload = v.payload, options = v.options,
    headers = v.headers, tags = v.tags, blocked_at = null,
    timeline = mita._noted(j.timeline, clock.now, {kind_debounced}, '', null)
from unnest(%(ids)s::text::text[], %(dues)s::text::bigint[], %(payloads)s::text::bytea[],
            %(options)s::text::bytea[], %(headers)s::text::bytea[], %(tags)s::text::jsonb[])
       as v (id, due, payload, options, headers, tags),
     (select {now} as now) as clock
where j.id = v.id and j.state in {waiting}
returning j.id
