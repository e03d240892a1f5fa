-- claim_block: jobs that could not pass a gate wait at its key.
-- In: ids, states, kinds and notes (of the timeline lines), keys.  Out: no row.
update mita._job as j
set state = v.state, blocked_at = v.key, {count_busy},
    timeline = mita._noted(j.timeline, clock.now, v.kind, v.note, null)
from unnest(%(ids)s::text::text[], %(states)s::text::text[], %(kinds)s::text::text[],
            %(notes)s::text::text[], %(keys)s::text::text[]) as v (id, state, kind, note, key),
     (select {now} as now) as clock
where j.id = v.id and j.state = {hidden_queued}
