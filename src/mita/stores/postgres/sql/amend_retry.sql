-- amend_retry: run a failed or cancelled job again as if it had never run, unless another job has
-- its unique key now.
-- In: id, wait, at, note; `at` is a point in time, or null and `wait` counts.
-- Out: id, queue, state as found, whether the job was retried.
with clock as materialized (select {now} as now),
found as materialized (
  select j.id, j.queue, j.state, j.uniq from mita._job as j where j.id = %(id)s for update
),
has_key as (
  insert into mita._unique as u (queue, key, id)
  select f.queue, f.uniq, f.id from found as f
  where f.uniq is not null and f.state in {from_revive}
  on conflict (queue, key) do update set id = excluded.id, until = null
  where u.id = excluded.id or u.until <= (select now from clock)
  returning u.id
),
retried as (
  update mita._job as j
  set state = {to_revive}, {reset_on_retry}, blocked_at = null,
      due = case when %(at)s::bigint is null then clock.now + %(wait)s::bigint
                 else greatest(%(at)s::bigint, clock.now) end,
      timeline = mita._noted(j.timeline, clock.now, {kind_revived}, %(note)s::text, null)
  from found as f, clock
  where j.id = f.id and f.state in {from_revive}
    and (f.uniq is null or exists (select 1 from has_key))
  returning j.id
)
select f.id, f.queue, f.state, exists (select 1 from retried) from found as f
