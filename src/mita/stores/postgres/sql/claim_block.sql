-- claim_block: jobs that found their resource key busy wait at the key.
-- In: ids, states, kinds (of the timeline lines).  Out: no row.
update mita._job as j
set state = v.state, {count_busy},
    timeline = mita._noted(j.timeline, clock.now, v.kind, j.resource || {busy_note}, null)
from unnest(%(ids)s::text::text[], %(states)s::text::text[], %(kinds)s::text::text[])
       as v (id, state, kind),
     (select {now} as now) as clock
where j.id = v.id and j.state = {hidden_queued}
