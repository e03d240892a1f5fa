-- settle_told: settle plain successes of jobs without keys that are kept. The jobs that wait for
-- them know of it, so what was asked of a job while it ran comes too late.
-- In: ids, tokens, results, keeps (the retention in ms, never 0).
-- Out: id, state, queue of the settlements that took.
with clock as materialized (select {now} as now),
v as materialized (
  select * from unnest(
    %(ids)s::text::text[], %(tokens)s::text::bigint[], %(results)s::text::bytea[],
    %(keeps)s::text::bigint[]
  ) as v (id, token, result, keep)
)
update mita._job as j
set state = {to_succeed}, result = v.result,
    finished = clock.now, expires = clock.now + v.keep,
    timeline = case
      when j.asked is null then j.timeline
      else mita._noted(j.timeline, clock.now, {kind_of_asked_success}, '', j.worker) end,
    stranded = null, lease_until = null, asked = null, asked_due = null, asked_keep = null
from v, clock
where j.id = v.id and j.token = v.token and j.state = {hidden_running}
returning j.id, j.state, j.queue
