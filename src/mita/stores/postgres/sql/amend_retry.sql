-- amend_retry: run failed or cancelled jobs again as if they had never run. A job whose unique key
-- another job has now is not retried. Of several jobs with one key, the first that may have it gets
-- it.
-- In: ids, each once, in the order asked; wait, at, note; `at` is a point in time, or null and
--     `wait` counts.
-- Out: id, queue, state as found, whether the job was retried.
with clock as materialized (select {now} as now),
found as materialized (
  select j.id, j.queue, j.state, j.uniq, v.place
  from unnest(%(ids)s::text::text[]) with ordinality as v (id, place)
  join mita._job as j on j.id = v.id
  order by j.id for update of j
),
has_key as (
  insert into mita._unique as u (queue, key, id)
  select distinct on (f.queue, f.uniq) f.queue, f.uniq, f.id
  from found as f cross join clock
  left join mita._unique as h on h.queue = f.queue and h.key = f.uniq
  where f.uniq is not null and f.state in {from_revive}
  order by f.queue, f.uniq, (h.id is null or h.id = f.id or h.until <= clock.now) desc, f.place
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
    and (f.uniq is null or f.id in (select k.id from has_key as k))
  returning j.id
)
select f.id, f.queue, f.state, f.id in (select r.id from retried as r) from found as f
