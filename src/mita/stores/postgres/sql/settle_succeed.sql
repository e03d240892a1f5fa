-- settle_succeed: settle plain successes of jobs without keys that are kept. What was asked of a
-- job while it ran comes first.
-- In: ids, tokens, results, keeps (the retention in ms, never 0).
-- Out: id, state, queue of the settlements that took; the last column is not used.
with clock as materialized (select {now} as now),
v as materialized (
  select * from unnest(
    %(ids)s::text::text[], %(tokens)s::text::bigint[], %(results)s::text::bytea[],
    %(keeps)s::text::bigint[]
  ) as v (id, token, result, keep)
),
-- Something was asked of few jobs or none, so the search begins with these.
asked as materialized (select j.id from mita._job as j where j.asked is not null),
deleted as (
  delete from mita._job as j using v, asked as a
  where a.id = v.id and j.id = a.id and j.token = v.token and j.state = {hidden_running}
    and {asked_to_end} and j.asked_keep = 0
  returning j.id, {state_after_asked} as state, j.queue
),
written as (
  update mita._job as j
  set state = coalesce({state_after_asked}, {to_succeed}),
      due = coalesce(j.asked_due, j.due),
      result = case when j.asked is null then v.result end,
      finished = case when not {asked_to_wait} then clock.now end,
      expires = case when not {asked_to_wait} then clock.now + coalesce(j.asked_keep, v.keep) end,
      worker = case when not {asked_to_wait} then j.worker end,
      timeline = case
        when j.asked is null then j.timeline
        else mita._noted(j.timeline, clock.now, {kind_of_asked_success}, '', j.worker) end,
      stranded = null, lease_until = null, asked = null, asked_due = null, asked_keep = null
  from v, clock
  where j.id = v.id and j.token = v.token and j.state = {hidden_running}
    and not ({asked_to_end} and j.asked_keep = 0)
  returning j.id, j.state, j.queue,
            case when j.state = {queued} and j.due < clock.now - {behind_ms}
                 then nextval('mita._behind') end
)
select * from written
union all
select id, state, queue, null from deleted
