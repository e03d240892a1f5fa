-- claim_skip: jobs that found a key busy end without a run.
-- In: ids, state, kind and note (of the timeline line), keep (the retention in ms).  Out: no row.
with clock as materialized (select {now} as now),
ended as (
  update mita._job as j
  set state = %(state)s, {count_busy},
      finished = clock.now, expires = clock.now + %(keep)s::bigint,
      timeline = mita._noted(j.timeline, clock.now, %(kind)s, %(note)s, null)
  from unnest(%(ids)s::text::text[]) as v (id), clock
  where j.id = v.id and j.state = {hidden_queued}
  returning j.id, j.queue, j.uniq, j.unique_for
)
update mita._unique as u set until = clock.now + least(e.unique_for, {latest})
from ended as e, clock
where u.queue = e.queue and u.key = e.uniq and u.id = e.id and u.until is null
