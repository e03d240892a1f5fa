-- succeed: put jobs down that ended well and have no keys; what was asked while they ran comes first.
-- In: ids, tokens, results, keeps (none 0).  Out: id, state, queue; of those that took.
with clock as materialized (select {now} as now),
v as materialized (
  select * from unnest(%(ids)s::text::text[], %(tokens)s::text::bigint[], %(results)s::text::bytea[], %(keeps)s::text::bigint[])
    as v (id, token, result, keep)
),
-- Few or none, so they are looked for among those that were asked, and not the other way round.
asked as materialized (select j.id from mita._job as j where j.asked is not null),
forgotten as (
  delete from mita._job as j using v, asked as a
  where a.id = v.id and j.id = a.id and j.token = v.token and j.state = {running} and j.asked = 'cancel' and j.asked_keep = 0
  returning j.id, j.queue
),
written as (
  update mita._job as j
  set state = case j.asked when 'cancel' then 'cancelled' when 'reschedule' then 'queued' else 'succeeded' end,
      due = case j.asked when 'reschedule' then j.asked_due else j.due end,
      result = case when j.asked is null then v.result end,
      finished = case when j.asked is distinct from 'reschedule' then clock.now end,
      expires = case j.asked when 'reschedule' then null when 'cancel' then clock.now + j.asked_keep else clock.now + v.keep end,
      worker = case when j.asked is distinct from 'reschedule' then j.worker end,
      timeline = case when j.asked is null then j.timeline else mita._noted(j.timeline, clock.now, 'succeeded', '', j.worker) end,
      stranded = null, lease_until = null, asked = null, asked_due = null, asked_keep = null
  from v, clock
  where j.id = v.id and j.token = v.token and j.state = {running} and (j.asked is distinct from 'cancel' or j.asked_keep > 0)
  returning j.id, j.state, j.queue, case when j.state = 'queued' and j.due < clock.now - 500 then nextval('mita._behind') end
)
select * from written
union all
select id, 'cancelled', queue, null from forgotten
