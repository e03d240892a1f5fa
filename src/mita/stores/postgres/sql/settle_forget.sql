-- forget: put jobs down that ended well, have no keys and need not be kept; what was asked while they ran comes first.
-- In: ids, tokens.  Out: id, state, queue; of those that took.
with clock as materialized (select {now} as now),
v as materialized (select * from unnest(%(ids)s::text::text[], %(tokens)s::text::bigint[]) as v (id, token)),
-- Few or none, so they are looked for among those that were asked, and not the other way round.
asked as materialized (select j.id from mita._job as j where j.asked is not null),
written as (
  update mita._job as j
  set state = case j.asked when 'cancel' then 'cancelled' else 'queued' end,
      due = case j.asked when 'reschedule' then j.asked_due else j.due end,
      finished = case when j.asked = 'cancel' then clock.now end,
      expires = case when j.asked = 'cancel' then clock.now + j.asked_keep end,
      worker = case when j.asked = 'cancel' then j.worker end,
      timeline = mita._noted(j.timeline, clock.now, 'succeeded', '', j.worker),
      stranded = null, result = null, lease_until = null, asked = null, asked_due = null, asked_keep = null
  from v, asked as a, clock
  where a.id = v.id and j.id = a.id and j.token = v.token and j.state = {running} and j.asked is not null
    and (j.asked <> 'cancel' or j.asked_keep > 0)
  returning j.id, j.state, j.queue, case when j.state = 'queued' and j.due < clock.now - 500 then nextval('mita._behind') end
),
forgotten as (
  delete from mita._job as j using v
  where j.id = v.id and j.token = v.token and j.state = {running} and (j.asked is null or (j.asked = 'cancel' and j.asked_keep = 0))
  returning j.id, j.queue
)
select * from written
union all
select id, 'succeeded', queue, null from forgotten
