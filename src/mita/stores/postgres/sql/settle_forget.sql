-- settle_forget: settle plain successes of jobs without keys that are not kept: delete them. What
-- was asked of a job while it ran comes first.
-- In: ids, tokens.
-- Out: id, state, queue of the settlements that took; the last column is not used.
with clock as materialized (select {now} as now),
v as materialized (
  select * from unnest(%(ids)s::text::text[], %(tokens)s::text::bigint[]) as v (id, token)
),
-- Something was asked of few jobs or none, so the search begins with these.
asked as materialized (select j.id from mita._job as j where j.asked is not null),
written as (
  update mita._job as j
  set state = {state_after_asked},
      due = coalesce(j.asked_due, j.due),
      finished = case when {asked_to_end} then clock.now end,
      expires = case when {asked_to_end} then clock.now + j.asked_keep end,
      worker = case when {asked_to_end} then j.worker end,
      timeline = mita._noted(j.timeline, clock.now, {kind_of_asked_success}, '', j.worker),
      stranded = null, result = null, lease_until = null,
      asked = null, asked_due = null, asked_keep = null
  from v, asked as a, clock
  where a.id = v.id and j.id = a.id and j.token = v.token and j.state = {hidden_running}
    and j.asked is not null and ({asked_to_wait} or j.asked_keep > 0)
  returning j.id, j.state, j.queue,
            case when j.state = {queued} and j.due < clock.now - {behind_ms}
                 then nextval('mita._behind') end
),
deleted as (
  delete from mita._job as j using v
  where j.id = v.id and j.token = v.token and j.state = {hidden_running}
    and (j.asked is null or ({asked_to_end} and j.asked_keep = 0))
  returning j.id, j.queue
)
select * from written
union all
select id, {to_succeed}, queue, null from deleted
